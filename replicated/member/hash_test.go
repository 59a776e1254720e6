package member_test

import (
	"testing"

	"github.com/squall-go/squall"
)

// hashOf asks a member for the hash of its copy.
func hashOf(t *testing.T, g *squall.Group, fresh bool) *squall.StateHash {
	t.Helper()
	s, err := squall.AskStatus(t.Context(), g.Addr(), squall.StatusConfig{Fresh: fresh})
	if err != nil {
		t.Fatal(err)
	}
	return s.Subgroups[0].State
}

// All members hash their states at one place of the order: equal states have equal hashes, and one
// that differs is seen.
func TestMembersHashTheirStatesAtOnePlace(t *testing.T) {
	t.Parallel()
	all := open(t, 3, ordered, nil)
	if h := hashOf(t, all[0].group, false); h != nil {
		t.Errorf("before anybody asked the hash is %v", h)
	}
	for range 10 {
		if _, err := deposit.Call(t.Context(), all[0].bank, depositArgs{"ann", 1}); err != nil {
			t.Fatal(err)
		}
	}
	first := hashOf(t, all[1].group, true)
	for i, m := range all {
		await(t, "every member has the hash", func() bool {
			h := hashOf(t, m.group, false)
			return h != nil && h.Position == first.Position
		})
		if h := hashOf(t, m.group, false); *h != *first {
			t.Errorf("member %d has the hash %v, and another one %v", i+1, h, first)
		}
	}
	if _, err := deposit.Call(t.Context(), all[0].bank, depositArgs{"ann", 1}); err != nil {
		t.Fatal(err)
	}
	if h := hashOf(t, all[2].group, true); h.Position <= first.Position || h.Sum == first.Sum {
		t.Errorf("after another command the hash is %v, and before it %v", h, first)
	}
}
