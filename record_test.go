package squall

import (
	"testing"
	"time"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// slowDisk keeps values in memory, and each write waits until it is let go.
type slowDisk struct {
	values  map[string][]byte
	writing chan struct{} // told of each write that waits; nil: none does
	letGo   chan struct{}
}

func (d *slowDisk) Get(key string) ([]byte, error) { return d.values[key], nil }

func (d *slowDisk) Put(values map[string][]byte) error {
	if d.writing != nil {
		d.writing <- struct{}{}
		<-d.letGo
	}
	for key, value := range values {
		d.values[key] = value
	}
	return nil
}

// V10: a decision is not shown before it is on disk, however long that takes.
func TestADecisionIsNotShownBeforeItIsOnDisk(t *testing.T) {
	disk := &slowDisk{values: map[string][]byte{}}
	memory, err := restart.Load(disk)
	if err != nil {
		t.Fatal(err)
	}
	self := views.Member{ID: 1, Incarnation: 7, Addr: "a:1"}
	v, _, err := views.Place(views.Placement{
		ID: 1, Cluster: "c", Key: "k", Members: []views.Member{self},
		Declarations: []views.Declaration{{Name: "log", Mode: views.Persistent, RingBytes: views.MinRingBytes, Window: views.MinWindow}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := memory.Begin(self); err != nil {
		t.Fatal(err)
	}
	if err := memory.Enter(v, nil); err != nil {
		t.Fatal(err)
	}
	disk.writing, disk.letGo = make(chan struct{}), make(chan struct{})
	g := &Group{durable: &durable{memory: memory, jobs: newJobs()}}
	defer g.durable.jobs.close()
	shown := make(chan struct{})
	g.record(v, views.Ballot(1<<8), &views.Decision{}, func() { close(shown) })
	<-disk.writing
	select {
	case <-shown:
		t.Error("the decision is shown while the disk writes it")
	default:
	}
	close(disk.letGo)
	select {
	case <-shown:
	case <-time.After(20 * time.Second):
		t.Fatal("the decision is on disk, and is never shown")
	}
	if s := memory.State(); s.Echo == nil || s.View.ID != order.ViewID(1) {
		t.Errorf("the disk knows view %d and the decision %v", s.View.ID, s.Echo)
	}
}

// What others have of a log, and this process lacks, is noted before it does anything in its first view.
func TestWhatAFreshMembersLogLacksIsNotedBeforeItEnters(t *testing.T) {
	memory, err := restart.Load(&slowDisk{values: map[string][]byte{}})
	if err != nil {
		t.Fatal(err)
	}
	self := views.Member{ID: 1, Incarnation: 7, Addr: "a:1"}
	v, _, err := views.Place(views.Placement{
		ID: 2, Cluster: "c", Key: "k", Members: []views.Member{{ID: 9, Incarnation: 3, Addr: "b:1"}, self},
		Declarations: []views.Declaration{{Name: "log", Mode: views.Persistent, RingBytes: views.MinRingBytes, Window: views.MinWindow}},
	})
	if err != nil {
		t.Fatal(err)
	}
	v.Subgroups[0].Fresh, v.Subgroups[0].Partial = []order.Rank{1}, []order.Rank{1}
	if err := memory.Begin(self); err != nil {
		t.Fatal(err)
	}
	id := persist.LogID{Name: "log"}
	g := &Group{cfg: Config{ID: 1, Subgroups: []SubgroupConfig{{Name: "log", Mode: Persistent}}}}
	g.durable = &durable{group: g, memory: memory, logs: map[persist.LogID]*shardLog{id: {}}}
	if err := g.enterDurable(v); err != nil {
		t.Fatal(err)
	}
	if list := memory.State().Incomplete; len(list) != 1 || list[0].LogID != restart.LogID(id) || list[0].Since != 2 {
		t.Errorf("noted are %v", list)
	}
}
