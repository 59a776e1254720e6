package member_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

const (
	heartbeat = 100 * time.Millisecond
	failAfter = time.Second
	tick      = 10 * time.Millisecond
)

// drain is an application that counts what it is given.
type drain struct {
	n    atomic.Int64
	each func(multicast.Message) // optional: told of each one
	full bool                    // it takes nothing
}

func (d *drain) Deliver(run []multicast.Message) int {
	if d.full {
		return 0
	}
	if d.each != nil {
		for _, m := range run {
			d.each(m)
		}
	}
	d.n.Add(int64(len(run)))
	return len(run)
}

func (d *drain) MaxRun() int { return 0 }

// world is members on memory, stepped in virtual time. Time is the world's; a member that is paused
// does not see it pass. Slices are by place: member i has node id i + 1, and in the first view rank
// i.
type world struct {
	t       *testing.T
	now     time.Duration
	window  int
	tables  map[string]*fabrictest.Memory // by the view's key
	keys    int
	members []*member.Member
	apps    []*drain
	downs   [][]viewchange.Suspected
	views   [][]*views.View // installed, without the first
	retired int             // tables that were given back
	paused  []bool
	onEvent func(i int, e viewchange.Event) // optional
	onWake  func()                          // optional
	late    time.Duration                   // of the timers that end slices

	logs   []*testLog // of persistent worlds
	clocks []order.Time

	mode      views.Mode
	after     bool // deliveries wait for all disks
	swallow   int  // the place of a member whose receiver keeps messages from its log; 0: none
	stuck     int  // the place of a member whose disk records nothing; 0: none
	least     int  // members that the subgroup needs in the next view
	recorders []*member.Recorder

	freights    []*freight
	made, freed int   // bodies of large messages, at their senders
	taken       int   // bodies that receivers have and did not release
	noRoom      error // why there is no memory for a body; nil: there is
	woken       atomic.Int32
}

func newWorld(t *testing.T, n, window int) *world { return newWorldOf(t, views.Ordered, n, window) }

func newWorldOf(t *testing.T, mode views.Mode, n, window int) *world {
	t.Helper()
	return newWorldLike(&world{mode: mode}, t, n, window)
}

func newWorldLike(like *world, t *testing.T, n, window int) *world {
	t.Helper()
	w := &world{t: t, now: time.Millisecond, window: window, tables: map[string]*fabrictest.Memory{}, mode: like.mode, after: like.after, swallow: like.swallow}
	var list []views.Member
	for i := range n {
		list = append(list, views.Member{ID: order.NodeID(i + 1)})
	}
	v, err := w.next(&views.View{}, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		w.enter(v)
	}
	return w
}

// beginning is a receiver that needs nothing of views.
type beginning struct{ multicast.Receiver }

// Begin implements member.Receiver.
func (beginning) Begin(*views.View, int) {}

// Whole implements member.Receiver.
func (beginning) Whole() bool { return true }

// Given implements member.Receiver.
func (beginning) Given(func()) bool { return true }
func (beginning) HasAll() bool      { return true }
func (beginning) Refuses() bool     { return false }

// enter makes the next member, whose first view is v.
func (w *world) enter(v *views.View) {
	w.t.Helper()
	i := len(w.members)
	w.apps, w.paused = append(w.apps, &drain{}), append(w.paused, false)
	w.downs, w.views = append(w.downs, nil), append(w.views, nil)
	var recorder *member.Recorder
	if w.mode == views.Persistent {
		w.logs, w.clocks = append(w.logs, &testLog{}), append(w.clocks, 0)
		recorder = member.NewRecorder(member.RecorderConfig{Log: w.logs[i], Receiver: w.apps[i], AfterPersist: w.after, Memory: 1 << 20, Observe: func(t order.Time) { w.members[i].Hear(t) }})
		w.recorders = append(w.recorders, recorder)
	}
	m, err := member.New(member.Config{
		Recorder: func(*views.View, int) *member.Recorder { return recorder }, Wall: func() order.Time { return w.clocks[i] },
		Record: func(_ *views.View, _ viewchange.Ballot, _ *viewchange.Decision, done func()) {
			if i != w.stuck || i == 0 {
				done()
			}
		},
		Self: order.NodeID(i + 1), View: v, Open: w.open, Next: w.next, Heartbeat: heartbeat, FailAfter: failAfter,
		Retire: func(table *fabric.Table) { w.retired++; table.Close() },
		Receiver: func(*views.View, int) member.Receiver {
			if recorder != nil && (i != w.swallow || i == 0) {
				return beginning{recorder}
			}
			return beginning{w.apps[i]}
		},
		Wake: func() {
			w.woken.Add(1)
			if w.onWake != nil {
				w.onWake()
			}
		},
		Transfers: w.transfers(i),
		Room: func(size int) (*multicast.Body, error) {
			if w.noRoom != nil {
				return nil, w.noRoom
			}
			w.made++
			return multicast.NewBody(make([]byte, size), "", func() { w.freed++ }), nil
		},
		Limits:    func(string) member.Limits { return member.Limits{MaxMessage: largest, LargeMemory: largeMemory} },
		Installed: func(v *views.View) { w.views[i] = append(w.views[i], v) },
		Halted:    func(error) {},
		Late:      func() time.Duration { return w.late },
		OnEvent: func(e viewchange.Event) {
			if w.onEvent != nil {
				w.onEvent(i, e)
			}
			if down, ok := e.(viewchange.Suspected); ok {
				w.downs[i] = append(w.downs[i], down)
			}
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.members = append(w.members, m)
}

// open gives a member its table of a view; the first that comes has all of them made.
func (w *world) open(v *views.View, self order.Rank, layout *member.Layout) (*fabric.Table, error) {
	if w.tables[v.Key()] == nil {
		var shapes []fabric.RowShape
		for r := range v.Members {
			shapes = append(shapes, layout.Shape(order.Rank(r)))
		}
		w.tables[v.Key()] = fabrictest.NewMemory(shapes...)
	}
	return w.tables[v.Key()].Tables[self], nil
}

func (w *world) next(previous *views.View, members []views.Member, mute func(order.NodeID, int) bool) (*views.View, error) {
	w.keys++
	placement := views.Placement{
		ID: previous.ID + 1, Cluster: "test", Key: fmt.Sprint(w.keys), Members: members, Mute: mute,
		Declarations: []views.Declaration{{Name: "a", Mode: w.mode, MinMembers: w.least, RingBytes: 4096, Window: w.window}},
	}
	if previous.ID > 0 {
		placement.Previous = previous
	}
	v, _, err := views.Place(placement)
	return v, err
}

// pass lets time go by, with a step of every member that is not paused in each tick.
func (w *world) pass(d time.Duration) {
	for end := w.now + d; w.now < end; w.now += tick {
		for i, m := range w.members {
			if !w.paused[i] {
				m.Step(w.now)
			}
		}
	}
}

// outbox is where a member sends.
func (w *world) outbox(i int) *member.Outbox { return w.members[i].Outbox("a") }

// send sends a message of a byte.
func (w *world) send(i int) error {
	c, err := w.outbox(i).TryClaim(1)
	if err != nil {
		return err
	}
	return w.outbox(i).Commit(c)
}

// crash ends all connections of a member, which does nothing any more.
func (w *world) crash(i int) {
	w.paused[i] = true
	for _, table := range w.members[i].Tables() {
		table.Close()
	}
}

// unchanged checks that no member halted and that the first view is still in force.
func (w *world) unchanged(when string) {
	w.t.Helper()
	for i, m := range w.members {
		if err := m.Err(); err != nil || m.View().ID != 1 {
			w.t.Fatalf("%s: node %d is in view %d, halted: %v", when, i+1, m.View().ID, err)
		}
	}
}

// agree checks that members are in a view of exactly these nodes.
func (w *world) agree(id order.ViewID, nodes []order.NodeID, places ...int) {
	w.t.Helper()
	for _, i := range places {
		v := w.members[i].View()
		var got []order.NodeID
		for _, m := range v.Members {
			got = append(got, m.ID)
		}
		if err := w.members[i].Err(); err != nil || v.ID != id || !slices.Equal(got, nodes) {
			w.t.Fatalf("node %d is in view %d of %v, not in %d of %v; halted: %v", i+1, v.ID, got, id, nodes, err)
		}
	}
}

// delivered checks how many messages each of some members delivered.
func (w *world) delivered(n int64, places ...int) {
	w.t.Helper()
	for _, i := range places {
		if got := w.apps[i].n.Load(); got != n {
			w.t.Errorf("node %d delivered %d messages, not %d", i+1, got, n)
		}
	}
}

// beats is what a member sees of a row's heartbeat. The member line comes first behind the
// fabric's.
func (w *world) beats(i int, row order.Rank) uint64 {
	return *fabric.Word(w.members[i].Table().Row(row), fabric.LineBytes)
}
