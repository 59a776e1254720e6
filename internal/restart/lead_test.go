package restart

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// A shard waits for a disk. Its node is here with another one, and would be placed in the shard: it
// has nothing of the log, and the other processes could not get the log from any process.
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

// The processes that are here have the log of a shard, and are too few to be its members. The view
// says which disks have the log: without that, a later view would begin another log. One of them
// has got all of it since the view before began.
func TestAShardWithTooFewProcessesWaitsForTheirDisks(t *testing.T) {
	members := []views.Member{{ID: 1, Incarnation: 5, Disk: 3}, {ID: 2, Incarnation: 6, Disk: 4}, {ID: 3, Incarnation: 7, Disk: 9}}
	had := views.Subgroup{Name: "log", Mode: views.Persistent, Members: []order.Rank{0, 1, 2}, Partial: []order.Rank{2}}
	c := &Core{
		cfg:     CoreConfig{Persistent: func(string) bool { return true }},
		state:   State{Successor: Successor{View: &views.View{ID: 7, Members: members, Subgroups: []views.Subgroup{had}}}},
		attempt: &attempt{accounts: []Message{{From: members[0]}, {From: members[2]}}},
	}
	next := &views.View{ID: 8, Members: []views.Member{members[0], members[2]}, Subgroups: []views.Subgroup{{Name: "log", Mode: views.Persistent}}}
	c.await(next)
	if want := []views.Holder{{ID: 1, Disk: 3}, {ID: 2, Disk: 4}, {ID: 3, Disk: 9}}; !reflect.DeepEqual(next.Subgroups[0].Holders, want) {
		t.Errorf("the shard waits for %v, want %v", next.Subgroups[0].Holders, want)
	}
}

// The logs are being brought to their agreed ends from a process that is gone, for a view that will
// not come into force. The other processes leave it to this process to lead.
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
		t.Error("nothing is led after it")
	}
}

// A process that leaves it to a more senior one to lead, once its patience with an attempt is over,
// waits for that one, and for its next Hello. It is not called again and again meanwhile.
func TestWhoLeavesItToAnotherToLeadIsNotCalledAtOnce(t *testing.T) {
	v := (&views.View{ID: 1, Cluster: "c"}).WithKey("first")
	for id := range order.NodeID(3) {
		v.Members = append(v.Members, views.Member{ID: id + 1, Addr: fmt.Sprintf("10.0.0.%d:1", id+1), Incarnation: uint64(id + 1)})
	}
	self, senior := v.Members[1], v.Members[0]
	self.Incarnation, senior.Incarnation = 12, 11
	c := NewCore(CoreConfig{
		Cluster: "c", Self: self, Logs: func() []LogEnd { return nil }, Persistent: func(string) bool { return false },
	}, State{Node: 2, Incarnations: []uint64{2}, Successor: Successor{View: v}})
	c.Start(0)
	hello := Message{Verb: Hello, Cluster: "c", From: senior, ViewID: 1, Key: "first", Counts: true, Able: true}
	c.Hear(1, hello)
	prepare := Message{Verb: Prepare, Cluster: "c", From: senior, ViewID: 1, Key: "first", Ballot: Ballot{1, 1}}
	if c.Hear(2, prepare); c.state.Promised != prepare.Ballot {
		t.Fatalf("promised is %v", c.state.Promised)
	}
	for now := time.Duration(2); now < 4*time.Second; now += 100 * time.Millisecond {
		c.Hear(now, hello)
		if c.Tick(now); c.Next() <= now {
			t.Fatalf("at %v it wants to be called at %v", now, c.Next())
		}
	}
}
