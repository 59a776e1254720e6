package squall

import (
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/viewchange"
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
	g.record(v, viewchange.Ballot(1<<8), &viewchange.Decision{}, func() { close(shown) })
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

// What others have of a log, and this process lacks, is noted before it does anything in its first
// view.
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
	core := life.New(life.Config{Self: 1, Declarations: g.cfg.declarations()})
	e := core.Start(memory.State(), nil)
	for e.Do != life.Begin {
		r := life.Result{View: v}
		if e.Do == life.NoteView || e.Do == life.OpenLog {
			if r = g.durable.perform(e); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		e = core.Ended(r)
	}
	if list := memory.State().Incomplete; len(list) != 1 || list[0].LogID != restart.LogID(id) || list[0].Since != 2 {
		t.Errorf("noted are %v", list)
	}
}

// A follower that is slow sees each view, and nothing is kept for one that has gone.
func TestASlowFollowerSeesEachView(t *testing.T) {
	var n news
	view := func(id order.ViewID) *View { return &View{ID: id} }
	n.add(view(1))
	next, stop := iter.Pull(n.follow(t.Context()))
	other, stopOther := iter.Pull(n.follow(t.Context()))
	defer stopOther()
	for _, each := range []func() (*View, bool){next, other} {
		if v, ok := each(); !ok || v.ID != 1 {
			t.Fatal("a follower begins with the view in force")
		}
	}
	for id := range order.ViewID(3) {
		n.add(view(2 + id))
	}
	for id := range order.ViewID(3) {
		if v, ok := next(); !ok || v.ID != 2+id {
			t.Fatalf("saw %v, want view %d", v, 2+id)
		}
	}
	if v, ok := other(); !ok || v.ID != 2 {
		t.Errorf("the slow one saw %v", v)
	}
	stopOther()
	stop()
	if n.add(view(5)); len(n.list) != 1 {
		t.Errorf("%d views are kept, and no reader follows", len(n.list))
	}
}

// A time is settled by a later record if that is on every disk. One that only this disk has may be
// cut, and another one come before it.
func TestARecordOnOneDiskSettlesNoTime(t *testing.T) {
	store, err := persist.Open(t.Context(), persist.Config{Dir: t.TempDir(), Cluster: "c", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	log, err := store.Log(t.Context(), persist.LogConfig{ID: persist.LogID{Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	for seq := range order.Seq(3) {
		if !log.Append(&Record{Version: Version{View: 1, Seq: seq}, Time: 10 * Time(seq+1), Sender: 1}) {
			t.Fatal("no space")
		}
	}
	if err := log.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &Log{subgroup: "a", log: log, frontier: new(member.Frontier)}
	if r, err := l.TryAt(15); !errors.Is(err, ErrNotFinal) {
		t.Errorf("at a time after which there are records on this disk: %v, %v", r, err)
	}
}

// The first view after a restart has a time that no clock may be behind: not before that of the
// view before, nor of what is in the logs here, whatever the clock of this process says.
func TestTheTimeOfARestartIsBehindEverythingThatWasSettled(t *testing.T) {
	ahead := order.TimeOf(time.Now().Add(time.Hour))
	for name, c := range map[string]struct{ previous, record, least Time }{
		"the view before": {previous: ahead, least: ahead},
		"the own log":     {record: ahead, least: ahead + 1},
		"the clock":       {least: order.TimeOf(time.Now())},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := persist.Open(t.Context(), persist.Config{Dir: t.TempDir(), Cluster: "c", Node: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			id := persist.LogID{Name: "log"}
			log, err := store.Log(t.Context(), persist.LogConfig{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			if c.record > 0 && !log.Append(&Record{Version: Version{View: 1, Seq: 1}, Time: c.record, Sender: 1}) {
				t.Fatal("no space")
			}
			if err := log.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			cfg := Config{Cluster: "c", Subgroups: []SubgroupConfig{{Name: "log", Mode: Persistent, Deliver: func(Message) {}}}}.withDefaults()
			d := &durable{group: &Group{cfg: cfg}, logs: map[persist.LogID]*shardLog{id: {log: log}}}
			members := []views.Member{{ID: 1, Incarnation: 7, Addr: "a:1"}}
			previous, _, err := views.Place(views.Placement{ID: 1, Cluster: "c", Key: "k", Members: members, Declarations: cfg.declarations()})
			if err != nil {
				t.Fatal(err)
			}
			previous.Time = c.previous
			v, err := d.place(previous, members)
			if err != nil || v.Time < c.least {
				t.Errorf("the time is %v, and not before %v was wanted: %v", v.Time, c.least, err)
			}
		})
	}
}
