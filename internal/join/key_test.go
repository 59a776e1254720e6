package join

import "testing"

// Connections for rows must show a key that only the members of the view were told, so it is new
// with every view.
func TestEveryViewHasAKeyThatItsMembersShare(t *testing.T) {
	keys := map[string]bool{}
	for range 3 {
		sessions := installedOn(t, cluster(t, 2))
		key := sessions[0].View().Key()
		if len(key) < 16 || sessions[1].View().Key() != key {
			t.Fatalf("keys %q and %q", key, sessions[1].View().Key())
		}
		keys[key] = true
	}
	if len(keys) != 3 {
		t.Fatalf("three views share keys: %v", keys)
	}
}
