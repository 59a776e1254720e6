package squall

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// counting is an application that counts the messages that it is given.
type counting struct {
	application
	given int
}

func (a *counting) Deliver(run []multicast.Message) int {
	a.given += len(run)
	return len(run)
}

func (a *counting) mark(func()) {}

// handing is a subgroup whose members hand over a state.
func handing() SubgroupConfig {
	return SubgroupConfig{
		Name: "map", Shards: 2, RingBytes: 64 << 10, Window: 64, Deliver: func(Message) {},
		Snapshot: func() func(io.Writer) error { return func(io.Writer) error { return nil } }, Restore: func(io.Reader) error { return nil },
	}
}

// A process moves to another shard. What its former shard still delivers here is not the
// application's any more.
func TestAnApplicationGetsNothingOfAShardThatItsProcessHasLeft(t *testing.T) {
	app := &counting{}
	g := &Group{cfg: Config{ID: 1, Subgroups: []SubgroupConfig{handing()}}, apps: []application{app}, subs: []*Subgroup{{}}}
	s := &states{group: g, source: transfer.NewSource(transfer.SourceConfig{Self: 1, Keeps: func(string) bool { return true }})}
	t.Cleanup(s.source.Close)
	h := newStays(s, 0)
	in := func(id order.ViewID, own, other int) *views.View {
		v := &views.View{ID: id, Members: []views.Member{{ID: 1}, {ID: 2}}, Subgroups: []views.Subgroup{{Name: "map"}, {Name: "map", Shard: 1}}}
		v.Subgroups[own].Members, v.Subgroups[other].Members = []order.Rank{0}, []order.Rank{1}
		return v
	}
	run := make([]multicast.Message, 3)
	former := h.enter(in(1, 0, 1), 0)
	if n := former.Deliver(run); n != 3 || app.given != 3 {
		t.Fatalf("of 3 messages %d are taken, and %d given to the application", n, app.given)
	}
	latter := h.enter(in(2, 1, 0), 1)
	if latter == former {
		t.Fatal("the stay in the other shard is the same one")
	}
	if n := former.Deliver(run); n != 3 || app.given != 3 {
		t.Errorf("after the move, %d of 3 messages are taken, and the application has been given %d", n, app.given)
	}
	if n := latter.Deliver(run); n != 3 || app.given != 3 {
		t.Errorf("before it has the state of the other shard, %d of 3 messages are taken, and the application has been given %d", n, app.given)
	}
}

// Goroutines that wait for the state of a shard which their process leaves before it is here wait
// for that of the next one.
func TestWhoWaitsForAStateWaitsForThatOfTheNextStay(t *testing.T) {
	g := &Group{cfg: Config{ID: 1, Subgroups: []SubgroupConfig{handing()}}, apps: []application{&counting{}}, subs: []*Subgroup{{}}}
	s := &states{group: g, source: transfer.NewSource(transfer.SourceConfig{Self: 1, Keeps: func(string) bool { return true }})}
	t.Cleanup(s.source.Close)
	h := newStays(s, 0)
	fresh := func(id order.ViewID, own int) *views.View {
		v := &views.View{ID: id, Members: []views.Member{{ID: 2}, {ID: 1}, {ID: 3}}, Subgroups: []views.Subgroup{{Name: "map"}, {Name: "map", Shard: 1}}}
		v.Subgroups[own].Members, v.Subgroups[own].Fresh, v.Subgroups[own].Partial = []order.Rank{0, 1}, []order.Rank{1}, []order.Rank{1}
		v.Subgroups[1-own].Members = []order.Rank{2}
		return v
	}
	enter := func(v *views.View, own int) *receiver {
		h.enter(v, own)
		h.core.Installed(v)
		h.perform()
		return h.own
	}
	former := enter(fresh(1, 0), 0)
	latter := enter(fresh(2, 1), 1)
	if former.here != latter.here {
		t.Error("the second stay has another channel than the first one")
	}
	select {
	case <-latter.here:
		t.Error("the state of the first stay counts as arrived, though its process has left the shard without it")
	default:
	}
	latter.arrive()
	<-latter.here
}

// A log that has no room when the group halts takes nothing more, and neither does the application.
func TestWhatALogDoesNotTakeBeforeTheHaltIsNotHandedOver(t *testing.T) {
	g := &Group{ending: newEnding()}
	r := &receiver{stays: &stays{states: &states{group: g}}, log: &shardLog{room: make(chan struct{}, 1)}}
	r.log.recorder = member.NewRecorder(member.RecorderConfig{Log: member.NoLog, Receiver: &counting{}, Observe: func(order.Time) {}})
	r.log.wake() // it looks once more, in vain
	close(g.halted)
	if r.record(make([]multicast.Message, 1)) {
		t.Error("a log without room has taken a message")
	}
}

// What a stay began that is not wanted any more ends, so that the next stay can begin.
func TestAnActivityThatIsCancelledEnds(t *testing.T) {
	sg := handing()
	sg.Shards = 0
	c := logged(t.TempDir(), 1, SubgroupConfig{})
	c.Dir, c.Subgroups = "", []SubgroupConfig{sg}
	g := opened(t, c)
	h := g.states.of[0]
	if !g.ask(func() {
		h.begin(h.own, shard.Effect{Do: shard.Rest, Pause: time.Hour})
		h.do(h.own, shard.Effect{Do: shard.Cancel})
	}) {
		t.Fatal(g.Err())
	}
	ended := make(chan struct{})
	go func() { g.states.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("it goes on")
	}
}

// A disk fails before there is a loop that could be halted: the group halts as soon as there is
// one.
func TestADiskThatFailsBeforeTheLoopRunsHaltsTheGroup(t *testing.T) {
	g := opened(t, logged(t.TempDir(), 1, SubgroupConfig{}))
	d := g.durable
	d.mu.Lock()
	d.running = false // as before start
	d.mu.Unlock()
	broken := errors.New("no disk")
	d.failed(broken)
	d.failed(errors.New("a later failure"))
	if err := g.Err(); err != nil {
		t.Fatalf("it halted before it ran: %v", err)
	}
	d.begin()
	select {
	case <-g.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if !errors.Is(g.Err(), broken) {
		t.Errorf("it halted because of: %v", g.Err())
	}
}

// The clock of a member is not behind what its own logs have as it begins, whatever the wall clock
// shows.
func TestAClockBeginsBehindTheOwnLogs(t *testing.T) {
	c := logged(t.TempDir(), 1, SubgroupConfig{})
	s, err := persist.Open(t.Context(), persist.Config{Dir: c.Dir, Cluster: c.Cluster, Node: c.ID})
	if err != nil {
		t.Fatal(err)
	}
	ahead := order.TimeOf(time.Now().Add(time.Hour))
	l, err := s.Log(t.Context(), persist.LogConfig{ID: persist.LogID{Name: "log"}})
	if err == nil {
		err = l.Import(t.Context(), persist.Record{Version: order.Version{View: 1}, Time: ahead, Sender: 1})
	}
	if err == nil {
		err = l.Sync(t.Context())
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if now := opened(t, c).member.Now(); now < ahead {
		t.Errorf("the clock reads %v, and the log has a record of %v", now, ahead)
	}
}
