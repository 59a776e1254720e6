package squall_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// A member that is alone a quorum of the last view comes back at another address, before the other
// one does. That one knows only the address that is no more.
func TestAMemberThatKnowsOnlyAnOldAddressIsToldOfTheGroup(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// known are the addresses in the Join of node 1 as it comes back, and of node 2.
		known func(one, two string) (ofOne, ofTwo []string)
	}{
		{"from the directory", func(one, two string) ([]string, []string) { return nil, []string{one} }},
		{"at its own port", func(one, two string) ([]string, []string) { return []string{two}, []string{two} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			groups, _ := durableCluster(t, dir, 2, nil)
			persistSome(t, groups, "message", 5)
			old, addr := groups[0].Addr(), groups[1].Addr()
			history := groups[0].View().Group
			closeWell(t, groups[1]) // node 1 goes on alone
			awaitView(t, 1, groups[0])
			closeAll(groups[0])

			ofOne, ofTwo := test.known(old, addr)
			one, _, err := persistentMember(t, 20*time.Second, 1, filepath.Join(dir, "node-1"), ofOne...)
			if err != nil {
				t.Fatal(err)
			}
			if one.Addr() == old {
				t.Skip("the system gave the same port again")
			}
			two, _, err := persistentMemberAt(t, addr, 20*time.Second, 2, filepath.Join(dir, "node-2"), ofTwo...)
			if err != nil {
				t.Fatal(err)
			}
			awaitView(t, 2, one, two)
			if got := two.View().Group; got != history {
				t.Errorf("node 2 is in group %q, not %q", got, history)
			}
			persistSome(t, []*squall.Group{one, two}, "more", 3)
		})
	}
}
