package relay

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/order"
)

// world is some relays, and a network between them whose delays are a seed's. What a relay wants is
// done some time, in the order that the contract of its driver allows.
type world struct {
	t       *testing.T
	seed    uint64
	rnd     *rand.Rand
	nodes   []*node
	blocks  int                    // that have been put on the wire
	onBlock func(count int)        // told of each
	spoil   func(b *packet) []byte // changes a block on the wire; nil: not
	sent    [][]byte               // by number
	started []*Started
	aborts  map[uint64]bool // by number
	trace   []string
	options []func() // memory of the list of what can happen next
	offers  bool     // some messages lie where all but the blind see them
}

// node is a driver of one relay, without connections, goroutines and time.
type node struct {
	w      *world
	place  int
	relay  *Relay
	open   bool
	dead   bool
	early  []int // the nodes that attached before this node opened
	out    Effects
	calls  []Call
	in     []*way            // by place: from there
	buffer map[uint64][]byte // by index
	sends  map[uint64][]byte // by number; nil once it must not be touched
	taking *Send
	waits  bool // it is not its turn yet
	refuse func(index uint64) error
	blind  bool
	taken  *Fetch            // what is being fetched
	shown  map[uint64]uint64 // by index: the number of a message that was looked at, and is not over
	views  map[uint64]uint64 // by index: what the application looks at

	completed []uint64
	abandoned []uint64
	told      map[string]int
	failed    error
}

// way is both connections from one node to another.
type way struct {
	control [][]byte
	blocks  []packet
	reading *packet // a block of which the header was read
	cut     bool    // the sender is dead: after what is left in control comes the end
	ended   bool
}

type packet struct {
	header [HeaderBytes]byte
	data   []byte
	offset int64
}

func newWorld(t *testing.T, seed uint64, c Config, n int) *world {
	w := &world{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 7)), aborts: map[uint64]bool{}}
	for place := range n {
		c.Nodes = append(c.Nodes, order.NodeID(place+10))
	}
	for place := range n {
		c.Self = place
		if c.MaxMessage == 0 {
			c.MaxMessage = 1 << 20
		}
		x := &node{w: w, place: place, relay: New(c), buffer: map[uint64][]byte{}, sends: map[uint64][]byte{}, told: map[string]int{}, shown: map[uint64]uint64{}, views: map[uint64]uint64{}}
		for range n {
			x.in = append(x.in, &way{})
		}
		w.nodes = append(w.nodes, x)
	}
	return w
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trace[max(0, len(w.trace)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// apply does what a relay wants.
func (x *node) apply() {
	x.relay.invariants()
	for _, f := range x.out.Frames {
		x.w.log("%d → %d %v %d %s", x.place, f.To, f.Kind, f.Index, f.Text)
		x.w.nodes[f.To].from(x.place).control = append(x.w.nodes[f.To].from(x.place).control, f.Append(nil))
	}
	x.calls = append(x.calls, x.out.Calls...)
	x.out.Reset()
}

func (x *node) from(place int) *way { return x.in[place] }

// openGroup makes a node a member.
func (x *node) openGroup() {
	x.open = true
	for _, o := range x.w.nodes {
		if o != x {
			o.from(x.place).control = append(o.from(x.place).control, (&Control{Kind: Attach}).Append(nil))
		}
	}
	for _, place := range x.early {
		x.meet(place)
		x.apply()
	}
}

// options are what can happen at a node now.
func (x *node) options(all []func()) []func() {
	if x.dead {
		return all
	}
	if !x.open {
		all = append(all, x.openGroup)
	}
	for place, in := range x.in {
		if len(in.control) > 0 || in.cut && !in.ended {
			all = append(all, func() { x.hear(place, in) })
		}
		if in.reading != nil && !in.ended {
			all = append(all, func() { x.finishReading(place, in, Whole) })
		} else if len(in.blocks) > 0 && !in.ended {
			all = append(all, func() { x.startReading(place, in) })
		}
	}
	if len(x.calls) > 0 {
		all = append(all, x.call)
	}
	if x.waits {
		all = append(all, x.leave)
	} else if x.taking != nil {
		all = append(all, x.finishSending)
	}
	if x.taken != nil {
		all = append(all, x.finishFetching)
	}
	for index := range uint64(len(x.w.sent)) {
		if _, is := x.views[index]; is && x.w.rnd.IntN(8) == 0 {
			all = append(all, func() { x.release(index) })
		}
	}
	return all
}

// startSending has this node's next block leave, if there is one and the one before was taken. Its
// turn may come later.
func (x *node) startSending() {
	if x.dead || x.taking != nil {
		return
	}
	if s, ok := x.relay.Next(); ok {
		x.taking = &s
		if x.waits = x.w.rnd.IntN(4) == 0; !x.waits {
			x.put(&s)
		}
	}
}

// leave puts a block on the wire whose turn came, unless it is not wanted any more.
func (x *node) leave() {
	if x.waits = false; x.relay.Wanted(x.taking) {
		x.put(x.taking)
	}
}

// hear takes one control frame, or the end of the connection.
func (x *node) hear(place int, in *way) {
	defer x.apply()
	if len(in.control) == 0 {
		in.ended = true
		if in.reading != nil {
			x.finishReading(place, in, Cut)
		}
		x.w.log("%d lost %d", x.place, place)
		if x.open {
			x.relay.Gone(place, &x.out)
		}
		return
	}
	frame := in.control[0]
	in.control = in.control[1:]
	c, n, err := ParseControl((*[ControlBytes]byte)(frame))
	if err != nil || n != len(frame)-ControlBytes {
		x.w.fatalf("a frame that does not parse: %v", err)
	}
	c.SetText(frame[ControlBytes:])
	switch {
	case c.Kind == Attach && x.open:
		x.meet(place)
	case c.Kind == Attach:
		x.early = append(x.early, place)
	default:
		x.relay.Step(place, &c, &x.out)
	}
}

// put puts a block on the wire. The bytes are looked at now, as they are by a socket that takes
// them.
func (x *node) put(s *Send) {
	data := x.buffer[s.Header.Message]
	if x.place == 0 {
		data = x.sends[s.Number]
	}
	if data == nil {
		x.w.fatalf("R5: %d sends block %d of message %d from memory that it gave back", x.place, s.Header.Block, s.Header.Message)
	}
	block := bytes.Clone(data[s.Offset:][:s.Header.Length])
	if s.NeedSum {
		s.Header.Sum = crc32.ChecksumIEEE(block)
	}
	p := packet{data: block}
	s.Header.Put(&p.header)
	if x.w.spoil != nil {
		p.data = x.w.spoil(&p)
	}
	in := x.w.nodes[s.To].from(x.place)
	in.blocks = append(in.blocks, p)
	x.w.blocks++
	x.w.log("%d ⇒ %d message %d block %d", x.place, s.To, s.Header.Message, s.Header.Block)
	if x.w.onBlock != nil {
		x.w.onBlock(x.w.blocks)
	}
}

func (x *node) finishSending() {
	s := x.taking
	x.taking = nil
	x.relay.BlockSent(s, &x.out)
	x.apply()
}

func (x *node) startReading(place int, in *way) {
	p := in.blocks[0]
	in.blocks = in.blocks[1:]
	h, err := ParseHeader(&p.header)
	if err != nil {
		x.w.fatalf("a header that does not parse: %v", err)
	}
	offset, v := x.relay.Expect(place, &h, &x.out)
	x.apply()
	if v == Take {
		p.offset = offset
		in.reading = &p
	}
}

func (x *node) finishReading(place int, in *way, a Arrival) {
	p := in.reading
	in.reading = nil
	h, _ := ParseHeader(&p.header)
	into := x.buffer[h.Message]
	if into == nil {
		x.w.fatalf("R5: %d reads block %d of message %d into memory that it gave back", x.place, h.Block, h.Message)
	}
	if a == Whole {
		copy(into[p.offset:][:h.Length], p.data)
		if crc32.ChecksumIEEE(p.data) != h.Sum {
			a = Damaged
		}
	}
	x.relay.Arrived(place, &h, a, &x.out)
	x.apply()
}

// call is the application.
func (x *node) call() {
	c := x.calls[0]
	x.calls = x.calls[1:]
	x.w.log("%d is told %d of message %d number %d: %v", x.place, c.Kind, c.Index, c.Number, c.Err)
	if x.failed != nil {
		x.w.fatalf("R4: %d is told something after the failure", x.place)
	}
	switch c.Kind {
	case MakeRoom:
		x.makeRoom(&c)
	case Completed:
		x.check(&c)
		x.pass(c.Index)
		x.completed = append(x.completed, c.Index)
	case Aborted:
		if !errors.Is(c.Err, ErrAborted) {
			x.w.fatalf("aborted because of %v", c.Err)
		}
		x.pass(c.Index)
		x.abandoned = append(x.abandoned, c.Index)
	case Withdrawn:
		if !slices.Contains(x.completed, c.Index) || !errors.Is(c.Err, ErrAborted) {
			x.w.fatalf("R1: %d is told that message %d, which it does not have, is withdrawn: %v", x.place, c.Index, c.Err)
		}
	case Failed:
		x.failed = c.Err
		clear(x.buffer)
		clear(x.shown)
		clear(x.sends)
	case Sent:
		x.once("sent", c.Number)
		x.free(&c)
	case Everywhere:
		x.once("everywhere", c.Number)
		if x.told[fmt.Sprint("sent", c.Number)] != 1 && !x.w.isViewed() {
			x.w.fatalf("message number %d is everywhere, and was not sent", c.Number)
		}
		if c.Err == nil {
			x.told[fmt.Sprint("arrived", c.Number)]++
		}
	}
}

// pass takes the memory back, in order.
func (x *node) pass(index uint64) {
	if want := uint64(len(x.completed) + len(x.abandoned)); index != want {
		x.w.fatalf("R1: %d is told of message %d instead of %d", x.place, index, want)
	}
	delete(x.buffer, index)
	delete(x.shown, index)
	x.relay.Heard(index, &x.out)
	x.apply()
}

func (x *node) once(what string, number uint64) {
	key := fmt.Sprint(what, number)
	if x.told[key]++; x.told[key] > 1 {
		x.w.fatalf("%s twice", key)
	}
}

func (x *node) makeRoom(c *Call) {
	var err error
	if x.refuse != nil {
		err = x.refuse(c.Index)
	}
	if err == nil {
		x.buffer[c.Index] = make([]byte, c.Size)
	}
	x.relay.Room(c.Index, err, &x.out)
	x.apply()
}

// check compares a message with what the root sent. The tag is its number.
func (x *node) check(c *Call) {
	if number, is := x.shown[c.Index]; is != c.InView && x.relay.cfg.InPlace {
		x.w.fatalf("message %d is in view: %v", c.Index, c.InView)
	} else if c.InView {
		x.views[c.Index] = number
		if root := x.w.nodes[0]; !bytes.Equal(root.sends[number], x.w.sent[c.Tag]) && root.failed == nil {
			x.w.fatalf("message %d is not what was sent", c.Index)
		}
		return
	}
	if !bytes.Equal(x.buffer[c.Index], x.w.sent[c.Tag]) {
		x.w.fatalf("message %d is not what was sent", c.Index)
	}
}

// start makes the root send.
func (w *world) start(size, filled int) *Started {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(w.rnd.Uint32())
	}
	root := w.nodes[0]
	root.open = root.open || func() bool { root.openGroup(); return true }()
	root.sends[uint64(len(w.sent))] = data
	var s *Started
	var err error
	if w.offers && w.rnd.IntN(4) > 0 {
		s, err = root.relay.Offer(int64(size), uint64(len(w.sent)), int64(filled), fmt.Sprint(len(w.sent)), &root.out)
	} else {
		s, err = root.relay.Start(int64(size), uint64(len(w.sent)), int64(filled), &root.out)
	}
	if err != nil {
		w.fatalf("start: %v", err)
	}
	w.sent, w.started = append(w.sent, data), append(w.started, s)
	root.apply()
	return s
}

func (w *world) abort(s *Started) {
	w.log("abort %d", s.Number)
	w.aborts[s.Number] = true
	root := w.nodes[0]
	root.relay.Abort(s, errors.New("changed my mind"), &root.out)
	root.apply()
}

// met reports whether every node knows that all nodes have opened the group. A member that dies
// before that is waited for.
func (w *world) met() bool {
	return !slices.ContainsFunc(w.nodes, func(x *node) bool {
		return !x.dead && slices.Contains(x.relay.attached, false) && x.relay.Failure() == nil
	})
}

// kill ends a node. Of what it sent, a part is lost.
func (w *world) kill(place int) {
	w.log("kill %d", place)
	x := w.nodes[place]
	x.dead = true
	for _, o := range w.nodes {
		if o == x {
			continue
		}
		in := o.from(place)
		in.cut = true
		in.control = in.control[:w.rnd.IntN(len(in.control)+1)]
		in.blocks = in.blocks[:w.rnd.IntN(len(in.blocks)+1)]
	}
}

// step lets one thing happen, and reports false if nothing can.
func (w *world) step() bool {
	for _, x := range w.nodes {
		x.startSending()
		x.startFetching()
	}
	all := w.options[:0]
	for _, x := range w.nodes {
		all = x.options(all)
	}
	w.options = all
	if len(all) == 0 {
		return false
	}
	all[w.rnd.IntN(len(all))]()
	return true
}

// run lets everything happen that can.
func (w *world) run() {
	for range 1_000_000 {
		if !w.step() {
			return
		}
	}
	w.fatalf("it does not end")
}

func (w *world) closeAll() {
	for _, x := range w.nodes {
		if !x.dead && x.open {
			x.relay.Close(&x.out)
			x.apply()
		}
	}
}

// finish runs until nothing moves, closes the group everywhere, and checks that all came to its
// end.
func (w *world) finish() {
	w.run()
	w.closeAll()
	w.run()
	w.allDone()
}

// allDone checks that every message that was not aborted is at every member, and that the group
// came to its end.
func (w *world) allDone() {
	for _, x := range w.nodes {
		if f := x.relay.Failure(); f != nil || !x.relay.Finished() || x.relay.Busy() || !x.relay.Over() {
			w.fatalf("%d is not finished: %v", x.place, f)
		}
		if x.place > 0 && len(x.completed) < len(w.sent)-len(w.aborts) {
			w.fatalf("%d has %d messages of %d", x.place, len(x.completed), len(w.sent))
		}
	}
	for number := range w.sent {
		root := w.nodes[0]
		if root.told[fmt.Sprint("everywhere", number)] != 1 || root.told[fmt.Sprint("arrived", number)] != 1 && !w.aborts[uint64(number)] {
			w.fatalf("the root was not told that %d is everywhere", number)
		}
	}
}

// allFailed checks that all survivors were told of one and the same failure, and that nothing is
// under way.
func (w *world) allFailed() *Failure {
	var first *Failure
	for _, x := range w.nodes {
		f := x.relay.Failure()
		switch {
		case x.dead:
			continue
		case f == nil || x.failed == nil || !errors.Is(x.failed, ErrFailed):
			w.fatalf("R4: %d was not told of the failure: %v, %v", x.place, f, x.failed)
		case first != nil && *first != *f:
			w.fatalf("R4: %d was told %v, others %v", x.place, f, first)
		case !x.relay.Over() || x.relay.Busy():
			w.fatalf("R5: %d has not come to rest", x.place)
		}
		first = f
	}
	w.toldOnce()
	return first
}

// toldOnce checks that of each message Sent and Everywhere were told.
func (w *world) toldOnce() {
	root := w.nodes[0]
	for number := range w.sent {
		if !root.dead && (root.told[fmt.Sprint("sent", number)] != 1 || root.told[fmt.Sprint("everywhere", number)] != 1) {
			w.fatalf("the root was not told what became of %d", number)
		}
	}
}
