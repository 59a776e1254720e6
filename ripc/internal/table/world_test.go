package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// world is an endpoint and its peers: goroutines that wait for messages, one of which polls, and
// processes that send and ring. One action runs at a time, and the seed says which. The processes
// also act in the middle of an action of the endpoint, between any two of its looks.
type world struct {
	*rand.Rand
	role  Role[*routine]
	table Peers[*process]

	routines  []*routine // the last one is the caretaker
	processes []*process
	announced bool // to the application's goroutines: the poller sleeps or is about to
	bell      bool // of the parker
	trace     []string
	wrong     error
}

// routine is a goroutine of the endpoint.
type routine struct {
	seat    Seat[*routine]
	name    string
	state   state
	bell    bool
	from    *process // from which it waits for a message
	reached bool
	cared   bool // the caretaker: it was told that nobody polls
}

type state uint8

const (
	out     state = iota // it does something else
	awake                // it is about to wait
	polling              // it has the role, or had it
	onBell
	inParker
)

// process is another process.
type process struct {
	spot    Spot[*process]
	sent    int  // messages in the ring
	stored  int  // of these, messages after which it has not looked yet whether the endpoint sleeps
	stock   int  // messages that were taken, and for which no goroutine waited
	parked  bool // the endpoint said that it does not look
	rang    bool
	expects bool // something was sent to it while it was not polled, and it was not polled since
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0))}
	for i := range 2 + w.IntN(Few+4) {
		p := &process{parked: true}
		p.spot = Spot[*process]{Peer: p, Always: i == 0 && w.IntN(2) == 0}
		w.processes = append(w.processes, p)
		w.heat(p)
	}
	for i := range 2 + w.IntN(3) {
		g := &routine{name: string(rune('A' + i))}
		g.seat = Seat[*routine]{Waiter: g, Yields: w.IntN(4) == 0}
		w.routines = append(w.routines, g)
	}
	care := &routine{name: "caretaker"}
	care.seat = Seat[*routine]{Waiter: care, Yields: true}
	w.routines = append(w.routines, care)
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) caretaker() *routine { return w.routines[len(w.routines)-1] }

// outside lets processes act: each message is stored, and then its sender looks whether it has to
// ring.
func (w *world) outside() {
	for w.IntN(3) == 0 {
		p := w.processes[w.IntN(len(w.processes))]
		if p.stored > 0 && w.IntN(2) == 0 {
			p.stored = 0
			p.rang = p.rang || p.parked
			continue
		}
		if p.sent < 3 {
			p.sent++
			p.stored++
		}
	}
}

func (w *world) heat(p *process) {
	p.expects = false
	if w.table.Heat(&p.spot) {
		p.parked = false
	}
	if w.role.IsAsleep() {
		w.wakeParker()
	}
}

func (w *world) wakeParker() { w.bell = w.bell || w.announced }

func (w *world) rouse(g *routine) {
	switch w.role.Rouse(&g.seat) {
	case CallBell:
		g.bell = true
	case CallParker:
		w.wakeParker()
	}
}

// take takes what a process sent.
func (w *world) take(p *process) bool {
	w.outside()
	worked := p.sent > 0
	for ; p.sent > 0; p.sent-- {
		i := slices.IndexFunc(w.routines, func(g *routine) bool { return g.state != out && g.from == p && !g.reached })
		if i < 0 {
			p.stock++
			continue
		}
		w.routines[i].reached = true
		w.rouse(w.routines[i])
	}
	return worked
}

func (w *world) heatStirred() {
	for s := w.table.Stirred(); s != nil; s = w.table.Stirred() {
		w.heat(s.Peer)
	}
}

// look heats the processes that rang.
func (w *world) look() {
	for _, p := range w.processes {
		if p.rang {
			p.rang = false
			w.heat(p)
		}
	}
	if !w.announced {
		w.bell = false
	}
}

// step is one of the poller.
func (w *world) step() (worked bool) {
	w.heatStirred()
	for _, p := range w.processes {
		if p.expects {
			w.wrong = fmt.Errorf("EP4: something was sent to a peer that is not polled")
		}
	}
	w.table.Step()
	if w.IntN(8) == 0 {
		w.table.steps += CoolAfter // time passes
	}
	w.look()
	for i := 0; i < len(w.table.Polled()); i++ {
		s := w.table.Polled()[i]
		p := s.Peer
		if w.take(p) {
			w.table.Worked(s)
			worked = true
		} else if w.table.Idle(s) {
			p.parked = true
			if !w.take(p) {
				w.table.Idle(s)
			} else if worked = true; w.table.Worked(s) {
				p.parked = false
			}
		}
		if w.table.Sweep(i, false) {
			i--
		}
	}
	return worked
}

// nap reports whether the poller sleeps.
func (w *world) nap(g *routine) bool {
	for _, s := range w.table.Polled() {
		s.Peer.parked = !s.Always
	}
	w.table.Announce()
	w.announced = true
	found := false
	for _, s := range w.table.Polled() {
		found = w.take(s.Peer) || found
	}
	if found || !w.table.MayDoze() || w.role.HasRoused() || g.reached {
		if w.role.MayRetract() {
			w.announced = false
		}
		for _, s := range w.table.Polled() {
			s.Peer.parked = false
		}
		return false
	}
	w.table.Doze(func(*process) {})
	w.role.Doze()
	return true
}

// begin has a goroutine wait for a message of a process, to which it may have sent something.
func (w *world) begin(g *routine) {
	g.from = w.processes[w.IntN(len(w.processes))]
	g.reached, g.state = false, awake
	if w.IntN(2) == 0 && g.from.spot.IsQuiet() {
		w.table.Stir(&g.from.spot)
		g.from.expects = true
	}
	if g.from.stock > 0 {
		g.from.stock--
		g.reached = true
	}
	w.goOn(g)
}

// goOn is the loop of a goroutine that waits, until it sleeps or polls.
func (w *world) goOn(g *routine) {
	switch {
	case g.reached:
		w.note("%s leaves", g.name)
		g.state, g.from = out, nil
		w.pass()
	case w.role.IsFree(&g.seat):
		w.note("%s polls", g.name)
		if w.role.Take(&g.seat) {
			w.wakeParker()
		}
		g.state = polling
	default:
		w.note("%s waits", g.name)
		w.role.Join(&g.seat)
		g.state = onBell
	}
}

func (w *world) pass() {
	next, care := w.role.Next()
	if next != nil {
		w.rouse(next.Waiter)
	}
	if care {
		w.caretaker().cared = true
	}
}

// poll is one round of the poller.
func (w *world) poll(g *routine) {
	switch {
	case !w.role.Has(&g.seat):
		w.stop(g)
	case g.state == polling:
		worked := w.step()
		switch {
		case g.reached, g == w.caretaker() && w.IntN(4) == 0:
			w.stop(g)
		case worked, w.IntN(3) == 0: // it lets others run
			w.role.Yield(w.IntN(4) == 0)
		case w.nap(g):
			w.note("%s sleeps", g.name)
			g.state = inParker
		}
	}
}

// stop ends the turn of a goroutine.
func (w *world) stop(g *routine) {
	w.role.Drop(&g.seat)
	if g == w.caretaker() {
		g.state = out
		w.pass()
		return
	}
	w.goOn(g)
}

// act lets one goroutine do one thing, and reports whether it could.
func (w *world) act(g *routine) bool {
	switch g.state {
	case out:
		if g != w.caretaker() {
			w.begin(g)
			return true
		}
		if w.role.Poller() != nil {
			w.role.AskNext()
		}
		if !g.cared {
			return false
		}
		if g.cared = false; w.role.Poller() == nil {
			w.role.Take(&g.seat)
			g.state = polling
		}
	case onBell:
		if !g.bell {
			return false
		}
		g.bell = false
		w.role.Leave(&g.seat)
		w.goOn(g)
	case inParker:
		if !w.bell && !slices.ContainsFunc(w.processes, func(p *process) bool { return p.rang || p.spot.Always && p.sent > 0 }) {
			return false
		}
		w.note("%s wakes", g.name)
		mine, retract := w.role.Wake(&g.seat)
		if retract {
			w.announced = false
		}
		g.state = polling
		if !mine {
			w.stop(g)
		}
	case polling:
		w.role.Resume()
		w.poll(g)
	}
	return true
}

// check looks at what holds between any two actions.
func (w *world) check() error {
	pollers, waits, roused := 0, 0, 0
	for _, g := range w.routines {
		if (g.state == polling || g.state == inParker) && w.role.Has(&g.seat) {
			pollers++
		}
		if g.state == onBell {
			waits++
			if g.bell {
				roused++
			}
		}
	}
	if pollers > 1 || waits > 0 && pollers+roused == 0 {
		return fmt.Errorf("EP5: %d goroutines poll, %d wait, %d of these were roused", pollers, waits, roused)
	}
	for _, p := range w.processes {
		if !p.spot.IsHot() && !p.parked {
			return fmt.Errorf("EP3: a peer is not polled and does not ring")
		}
	}
	if w.role.Poller() == nil && waits == 0 && w.role.waiting && w.caretaker().state == out && !w.caretaker().cared {
		return fmt.Errorf("EP6: nobody polls, and the caretaker does not learn of it")
	}
	return w.wrong
}

// runWorld lives through one world. In the end all that was sent arrives where goroutines wait for
// it.
func runWorld(seed uint64) (err error) {
	w := newWorld(seed)
	defer func() {
		if err != nil {
			err = fmt.Errorf("seed %d: %w\n%q", seed, err, w.trace[max(0, len(w.trace)-20):])
		}
	}()
	for range 300 {
		w.outside()
		if g := w.routines[w.IntN(len(w.routines))]; g.state != out || w.IntN(2) == 0 {
			w.act(g)
		}
		if err := w.check(); err != nil {
			return err
		}
	}
	for _, p := range w.processes { // the senders end what they began
		p.rang = p.rang || p.stored > 0 && p.parked
		p.stored = 0
	}
	for range 1000 {
		for _, g := range w.routines {
			if g.state != out {
				w.act(g)
			}
		}
		if err := w.check(); err != nil {
			return err
		}
	}
	for _, g := range w.routines {
		if g.state != out && g.from != nil && g.from.sent > 0 && g.from.stored == 0 && !w.canWake() {
			return fmt.Errorf("EP3, EP5: %s waits for a message that is here", g.name)
		}
	}
	return nil
}

// canWake reports whether any goroutine that waits goes on.
func (w *world) canWake() bool {
	return w.bell || slices.ContainsFunc(w.processes, func(p *process) bool { return p.rang }) ||
		slices.ContainsFunc(w.routines, func(g *routine) bool { return g.bell || g.state == polling })
}

// One goroutine polls while others wait, no peer is left that is neither polled nor rings, and what
// is sent arrives, whatever the order of events (EP3 to EP6).
func TestWhatIsSentArrivesWhereAGoroutineWaits(t *testing.T) {
	for seed := range testutil.Seeds[uint64](400, 20000) {
		if err := runWorld(seed); err != nil {
			t.Fatal(err)
		}
	}
}
