package member_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated/member"
)

// A program that lacks an operation which the group uses is refused before a view change, however
// often it is started. The member that knows the operation is the leader, or, if the leader has no
// copy of the object, another member.
func TestAnOutdatedProgramChangesNoView(t *testing.T) {
	t.Parallel()
	for name, members := range map[string][]squall.NodeID{"by the leader": nil, "by another member": {2, 9}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := func(newer bool) *member.Object[*gated] {
				add := func(s *gated, _ *member.Context, n int64) (int64, error) { s.N += n; return s.N, nil }
				all := []member.Binding[*gated]{member.Handle(oldAdd, add)}
				if newer {
					all = append(all, member.Handle(newAdd, add))
				}
				return member.New(squall.SubgroupConfig{Name: "accounts", Members: members}, func() *gated { return &gated{} }, all...)
			}
			all := open(t, 2, func(int) *member.Object[*gated] { return object(true) }, nil)
			if _, err := newAdd.Call(t.Context(), all[1].bank, 1); err != nil {
				t.Fatal(err)
			}
			start := func(newer bool) (*node[*gated], error) {
				n := &node[*gated]{bank: object(newer)}
				var err error
				n.group, err = member.Open(testutil.Within(t), squall.Config{Cluster: "test", ID: 9, Listen: "127.0.0.1:0", Join: []string{all[0].group.Addr()}, InitialMembers: 2, Logger: quiet}, n.bank)
				return n, err
			}
			before := all[0].group.View().ID
			for range 3 {
				_, err := start(false)
				if !errors.Is(err, squall.ErrRefused) {
					t.Fatalf("an outdated program: %v", err)
				}
				for _, part := range []string{`"accounts"`, `"new add"`, "start a version of the program that has them"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%v does not say %s", err, part)
					}
				}
				if strings.Contains(err.Error(), `"old add"`) {
					t.Errorf("%v names an operation that the program has", err)
				}
			}
			for i, n := range all {
				if v := n.group.View().ID; v != before {
					t.Errorf("member %d is in view %d, and was in view %d before", i+1, v, before)
				}
			}
			third, err := start(true)
			if err != nil {
				t.Fatalf("a program with all operations: %v", err)
			}
			t.Cleanup(func() { closeAll(t, []*node[*gated]{third}) })
			if v := third.group.View().ID; v != before+1 {
				t.Errorf("it is a member from view %d on, and the view was %d before", v, before)
			}
		})
	}
}
