package restart

import (
	"reflect"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// A shard waits for a disk. Its node is here with another one, and would be placed in the shard: it has nothing of the log, and there is nobody from whom
// the others could get it.
func TestAShardWaitsForADiskWhoseNodeIsHereWithAnotherOne(t *testing.T) {
	waits := views.Subgroup{Name: "log", Mode: views.Persistent, Holders: []views.Holder{{ID: 2, Incarnation: 1, Disk: 11}}}
	members := []views.Member{{ID: 1, Incarnation: 5, Disk: 3}, {ID: 2, Incarnation: 6, Disk: 6}}
	c := &Core{
		cfg:     CoreConfig{Persistent: func(string) bool { return true }},
		state:   State{Successor: Successor{View: &views.View{ID: 7, Members: members, Subgroups: []views.Subgroup{waits}}}},
		attempt: &attempt{accounts: []Message{{From: members[0]}, {From: members[1]}}},
	}
	placed := views.Subgroup{Name: "log", Mode: views.Persistent, Members: []order.Rank{1}, Senders: []order.Rank{1}}
	c.attempt.next.View = &views.View{ID: 8, Members: members, Subgroups: []views.Subgroup{placed}}
	c.await(c.attempt.next.View)
	if sg := c.attempt.next.View.Subgroups[0]; sg.Provisioned() || !reflect.DeepEqual(sg.Holders, []views.Holder{{ID: 2, Disk: 11}}) {
		t.Errorf("members %v, keepers %v", sg.Members, sg.Holders)
	}
	if err := c.agree(); err != nil || len(c.attempt.agreed) > 0 {
		t.Errorf("%v, and agreed upon is %v", err, c.attempt.agreed)
	}
}

// The logs are being brought to their agreed ends from somebody who is gone, for a view that is not to be any more. Others leave it to this process to lead.
func TestWhoIsToLeadEndsAReconciliationThatNobodyWaitsFor(t *testing.T) {
	self := views.Member{ID: 1, Incarnation: 1}
	c := NewCore(CoreConfig{
		Cluster: "c", Self: self, Logs: func() []LogEnd { return nil }, Persistent: func(string) bool { return false },
		Place: func(_ *views.View, members []views.Member) (*views.View, error) {
			return (&views.View{ID: 2, Members: members}).WithKey("second"), nil
		},
	}, State{Node: 1, Incarnations: []uint64{1}, Promised: Ballot{1, 1}, Successor: Successor{View: (&views.View{ID: 1, Members: []views.Member{self}}).WithKey("first")}})
	c.work = &work{ballot: Ballot{1, 1}, view: (&views.View{ID: 2}).WithKey("gone")}
	if e := c.Start(0); !e.Stop || c.attempt != nil {
		t.Errorf("it is stopped: %v, and %v is led", e.Stop, c.attempt)
	}
	if c.Reconciled(0, Ballot{1, 1}, errNotWhole); !c.Over() && c.attempt == nil {
		t.Error("nothing is led behind it")
	}
}
