package multicast_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// world is a subgroup over several views, without the protocol that agrees on them: the survivors
// are drawn at random, and all members are told.
type world struct {
	random *rand.Rand
	mode   views.Mode
	view   *views.View
	procs  []*proc // the members, by rank
	gone   []*proc
	ways   *fabrictest.Memory
}

// proc is one process.
type proc struct {
	id      order.NodeID
	sender  *smc.Sender // of the view at hand, or a shelf; nil: it never sent
	accepts bool
	from    order.Index // what of it the view that ended delivers
	claims  []*claim
	parts   []*part // the views that it has not delivered to the end; the last is the one at hand
	log     []string
	views   [][]string // the same by view, with positions
	stopped bool
}

type claim struct {
	smc.Claim
	text            string
	done, committed bool
}

// part is a process's part in a view.
type part struct {
	*multicast.Subgroup
	table *sst.Table
}

// upcall is what a process's application makes of a view.
type upcall struct {
	w    *world
	p    *proc
	view int // from 0
}

// broken is what run recovers.
type broken struct{ error }

func (w *world) fail(format string, args ...any) { panic(broken{fmt.Errorf(format, args...)}) }

// Deliver implements multicast.Receiver.
func (p upcall) Deliver(run []multicast.Message) int {
	k := len(run)
	if p.w.random.IntN(3) == 0 {
		k = p.w.random.IntN(k + 1)
	}
	for _, m := range run[:k] {
		p.p.log = append(p.p.log, fmt.Sprintf("%d:%s", m.Sender, m.Data))
		p.p.views[p.view] = append(p.p.views[p.view], fmt.Sprintf("%d:%s@%d", m.Sender, m.Data, m.Seq))
	}
	return k
}

// MaxRun implements multicast.Receiver.
func (p upcall) MaxRun() int { return p.w.random.IntN(4) }

// install begins a view of these processes.
func (w *world) install(procs []*proc, id order.ViewID, everybodySends bool) {
	sg := views.Subgroup{Name: "a", Mode: w.mode, RingBytes: 256, Window: 8}
	v := &views.View{ID: id}
	for r, p := range procs {
		v.Members = append(v.Members, views.Member{ID: p.id, Incarnation: uint64(p.id)})
		sg.Members = append(sg.Members, order.Rank(r))
		if everybodySends || w.random.IntN(4) > 0 {
			sg.Senders = append(sg.Senders, order.Rank(r))
		}
	}
	v.Subgroups = []views.Subgroup{sg}
	layout := sst.NewLayout(len(procs))
	columns := multicast.Declare(layout, sg)
	var shapes []fabric.RowShape
	for r := range procs {
		shapes = append(shapes, layout.Shape(order.Rank(r)))
	}
	w.view, w.procs, w.ways = v, procs, fabrictest.NewMemory(shapes...)
	for r, p := range procs {
		table, err := sst.NewTable(layout, w.ways.Tables[r])
		if err != nil {
			panic(err)
		}
		one, app := &part{table: table}, upcall{w, p, len(p.views)}
		p.views = append(p.views, nil)
		cfg := multicast.Config{View: v, Subgroup: sg, Columns: columns, Table: table, Receiver: app, Carry: p.sender, Delivered: p.from}
		if len(p.parts) > 0 {
			cfg.Ahead = p.parts[len(p.parts)-1].Ahead()
		}
		one.Subgroup = multicast.New(cfg)
		table.OnMove(one.Rebind)
		p.parts = append(p.parts, one)
		p.settle(one.Sender)
	}
}

// settle goes on with the ring of a new view, or a shelf.
func (p *proc) settle(s *smc.Sender) {
	p.accepts = s != nil
	if s == nil && p.sender != nil {
		s = smc.NewShelf(p.sender)
		s.Carry(p.sender, p.from)
	}
	p.sender, p.from = s, 0
}

func (p *proc) part() *part { return p.parts[len(p.parts)-1] }

// step is one step of a process: of its view, and of the rest of earlier views.
func (p *proc) step() int {
	one := p.part()
	work := one.table.Poll() + one.Exchange()
	one.table.Flush()
	work += p.parts[0].Deliver()
	if len(p.parts) > 1 && p.parts[0].Finished() {
		p.parts = p.parts[1:]
		work++
	}
	return work
}

// act is something that a process does, or that happens to its messages on the way.
func (w *world) act() {
	r := w.random.IntN(len(w.procs))
	p := w.procs[r]
	switch w.random.IntN(9) {
	case 0, 1:
		w.claim(p)
	case 2:
		w.finish(p, w.random.IntN(8) > 0)
	case 3:
		if to := w.random.IntN(len(w.procs)); to != r {
			w.ways.Hold(order.Rank(r), order.Rank(to), w.random.IntN(2) == 0)
		}
	case 4:
		if one := p.part(); one.Sender != nil && w.mode == views.Ordered && w.random.IntN(8) == 0 {
			one.Skip(order.Index(w.random.IntN(12)))
		}
	default:
		if !p.stopped {
			p.step()
		}
	}
}

// claim takes room, and mostly fills and commits it at once.
func (w *world) claim(p *proc) {
	if !p.accepts || p.stopped {
		return
	}
	text := fmt.Sprint(len(p.claims))
	c, ok := p.sender.Claim(len(text))
	if !ok {
		return
	}
	copy(c.Bytes, text)
	p.claims = append(p.claims, &claim{Claim: c, text: text})
	if w.random.IntN(4) > 0 {
		w.end(p, p.claims[len(p.claims)-1], true)
	}
}

// finish ends the first claim that is open.
func (w *world) finish(p *proc, commit bool) bool {
	i := slices.IndexFunc(p.claims, func(c *claim) bool { return !c.done })
	if i < 0 {
		return false
	}
	w.end(p, p.claims[i], commit)
	return true
}

func (w *world) end(p *proc, c *claim, commit bool) {
	here, moved := (*smc.Sender).Commit, (*smc.Sender).CommitMoved
	if !commit {
		here, moved = (*smc.Sender).Abort, (*smc.Sender).AbortMoved
	}
	err := here(p.sender, c.Claim)
	if errors.Is(err, smc.ErrMoved) {
		err = moved(p.sender, c.Claim)
	}
	if err != nil {
		w.fail("S5: node %d: %w", p.id, err)
	}
	c.done, c.committed = true, commit
}

// change ends the view: some wedge, some fail or are evicted and go on, and in between everything
// goes on. It returns the survivors.
func (w *world) change() (survivors []*proc) {
	var rest []order.Rank
	for r, p := range w.procs {
		if len(survivors) == 0 || w.random.IntN(4) > 0 {
			survivors = append(survivors, p)
			rest = append(rest, order.Rank(r))
		} else {
			w.gone = append(w.gone, p)
			p.stopped = w.random.IntN(2) == 0
		}
	}
	for _, i := range w.random.Perm(len(survivors)) {
		for range w.random.IntN(12) {
			w.act()
		}
		w.wedge(survivors[i].part(), rest)
	}
	trim := w.trim(survivors)
	for _, i := range w.random.Perm(len(survivors)) {
		for range w.random.IntN(6) {
			w.act()
		}
		w.trimOne(survivors[i], rest[i], trim)
	}
	return survivors
}

func (w *world) wedge(one *part, survivors []order.Rank) {
	for r := range order.Rank(len(w.procs)) {
		if !slices.Contains(survivors, r) {
			one.table.Freeze(r)
		}
	}
	one.Wedge()
}

// trim is the least reach among the survivors.
func (w *world) trim(survivors []*proc) (trim []order.Index) {
	for _, p := range survivors {
		reach := p.part().Reach()
		if trim == nil {
			trim = slices.Clone(reach)
		}
		for k, n := range reach {
			trim[k] = min(trim[k], n)
		}
	}
	return trim
}

func (w *world) trimOne(p *proc, r order.Rank, trim []order.Index) {
	one := p.part()
	before := slices.Clone(one.Reach())
	if err := one.Trim(trim); err != nil { // M6, M7
		w.fail("node %d: %w", p.id, err)
	}
	if !slices.Equal(before, one.Reach()) {
		w.fail("M8: node %d: reach went from %v to %v", p.id, before, one.Reach())
	}
	if k, ok := w.view.Subgroups[0].SenderRank(r); ok {
		p.from = trim[k]
	}
}

// rest lets everything arrive, finishes all claims and steps until nothing happens.
func (w *world) rest() {
	for from := range order.Rank(len(w.procs)) {
		for to := range order.Rank(len(w.procs)) {
			if from != to {
				w.ways.Hold(from, to, false)
			}
		}
	}
	for _, p := range w.procs {
		for w.finish(p, true) {
		}
		if n := p.sender.Foreign(); n > 0 {
			w.fail("node %d: no claim is open, and %d have their bytes elsewhere", p.id, n)
		}
	}
	for quiet, rounds := 0, 0; quiet < 30; rounds++ { // an application that refuses does nothing now and then
		work := 0
		for _, p := range w.procs {
			work += p.step()
		}
		if quiet++; work > 0 {
			quiet = 0
		}
		if rounds == 20000 {
			w.fail("the group does not come to rest")
		}
	}
}

// check compares what all members delivered over all views.
func (w *world) check() {
	for _, p := range w.procs {
		if len(p.parts) > 1 {
			w.fail("node %d has not delivered the rest of a view", p.id)
		}
		for _, q := range w.procs {
			w.checkLoss(p, q)
		}
		w.checkOrder(p, true)
	}
	for _, p := range w.gone {
		w.checkOrder(p, false)
	}
}

// checkLoss is G3: what a survivor sent is delivered at every survivor once, in its order (M10,
// S6).
func (w *world) checkLoss(from, at *proc) {
	var want, have []string
	for _, c := range from.claims {
		if c.committed {
			want = append(want, fmt.Sprintf("%d:%s", from.id, c.text))
		}
	}
	for _, entry := range at.log {
		if strings.HasPrefix(entry, fmt.Sprintf("%d:", from.id)) {
			have = append(have, entry)
		}
	}
	if !slices.Equal(have, want) {
		w.fail("G3: node %d delivered %v\nof node %d, which sent %v", at.id, have, from.id, want)
	}
}

// checkOrder is G4: all survivors delivered the same in each view (M9), and each other member
// delivered a part of that (M6).
func (w *world) checkOrder(p *proc, whole bool) {
	if w.mode == views.Unordered {
		return
	}
	have, want := strings.Join(p.all(), ""), strings.Join(w.procs[0].all(), "")
	if have != want && (whole || !strings.HasPrefix(want, have)) {
		w.fail("G4: node %d delivered\n%s\nand node %d\n%s", p.id, have, w.procs[0].id, want)
	}
}

// all is what was delivered, with its places.
func (p *proc) all() (entries []string) {
	for v, entriesOfView := range p.views {
		for _, e := range entriesOfView {
			entries = append(entries, fmt.Sprintf("%d/%s ", v+1, e))
		}
	}
	return entries
}

// runViews draws a group, a few views, and what happens in them.
func runViews(seed, run uint64) (err error) {
	w := &world{random: rand.New(rand.NewPCG(seed, run))}
	defer func() {
		if b, ok := recover().(broken); ok {
			err = fmt.Errorf("seed %d, run %d, mode %v: %w", seed, run, w.mode, b.error)
		}
	}()
	w.mode = views.Mode(w.random.IntN(2))
	var procs []*proc
	for i := range 2 + w.random.IntN(4) {
		procs = append(procs, &proc{id: order.NodeID(i + 1)})
	}
	changes := 1 + w.random.IntN(4)
	for v := range changes {
		w.install(procs, order.ViewID(v+1), v == 0)
		for range w.random.IntN(150) {
			w.act()
		}
		procs = w.change()
	}
	w.install(procs, order.ViewID(changes+1), true)
	w.rest()
	w.check()
	return nil
}

// M6 to M10, over random views, wedges, failures, open claims, delays and applications that take
// little at a time.
func TestViewsEndTheSameAtAllSurvivorsAndLoseNothing(t *testing.T) {
	runs := uint64(3000)
	if testing.Short() {
		runs = 300
	}
	seed := testutil.Seed(t)
	for run := range runs {
		if err := runViews(seed, run); err != nil {
			t.Fatal(err)
		}
	}
}
