package pair

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
)

// roomPlan is what the processes of a roomWorld do.
type roomPlan struct {
	memory  [4][]byte // of the rows and their copies, for one world after the other
	direct  bool
	large   bool        // most of the states are of this plan
	deaf    [4]bool     // channels whose messages the application does not receive: their frames are copied out of the ring
	late    bool        // the reader has not looked when the senders begin
	before  []roomFrame // in the ring, received and held, when the senders begin
	freed   []int       // of these, what the application gives back before, which may be too little to be published
	senders []roomFrame // one sender for each
	frees   []int       // what the application gives back meanwhile, in this order, by the position in the ring
}

type roomFrame struct{ channel, bytes int }

var zeros [MinRingBytes]byte

// roomWorld is two processes: in one of them several goroutines send on the channels of one ring,
// the other one gives frames back. In both, a poller looks at the other process, and sleeps when
// there is nothing to do. Every action is one that the other goroutines see as a whole; where a
// process stores a word and then loads another one, these are two actions.
type roomWorld struct {
	plan    *roomPlan
	tx      *Sender
	rx      *Receiver
	rows    [2][]byte // of the process that sends, and of the other one
	copies  [2][]byte // of each row, at the other process
	wire    [2][]push
	queue   Queue[*roomSender]
	senders []*roomSender
	pollers [2]roomPoller
	order   []byte // of the frames that were sent, by their senders
	taken   []*Frame
	freed   int  // of plan.frees
	tells   bool // the application freed something, and has not told
	err     error
}

type roomSender struct {
	roomFrame
	id    byte
	entry Entry[*roomSender]
	state senderState
}

type senderState uint8

const (
	begins senderState = iota
	joined             // it found no room, and stored that it is hungry
	waits
	sent
)

type roomPoller struct {
	state  pollerState
	parked bool // the other process rings
	bell   bool
}

type pollerState uint8

const (
	awake pollerState = iota
	parking
	asleep
)

const (
	senderSide = 0
	readerSide = 1
)

func newRoomWorld(plan *roomPlan) *roomWorld {
	w := &roomWorld{plan: plan}
	for i := range plan.memory {
		if plan.memory[i] == nil {
			plan.memory[i], _, _ = fabric.NewMemory(ControlBytes + MinRingBytes)
		}
		clear(plan.memory[i])
	}
	for i := range w.rows {
		w.rows[i], w.copies[i] = plan.memory[i], plan.memory[i]
		if !plan.direct {
			w.copies[i] = plan.memory[2+i]
		}
	}
	w.tx = NewSender(w.rows[senderSide], w.copies[readerSide], plan.direct)
	w.rx = NewReceiver(w.rows[readerSide], w.copies[senderSide], plan.direct)
	for _, f := range plan.before {
		if w.tx.Put(Message, f.channel, 0, [][]byte{zeros[:f.bytes]}) != Accepted {
			panic("a plan with too many frames")
		}
	}
	w.pushFrames()
	if !plan.late {
		w.look(readerSide)
		for _, k := range plan.freed {
			w.free(k)
		}
		w.tell()
		w.look(senderSide)
	}
	for id, f := range plan.senders {
		s := &roomSender{roomFrame: f, id: byte(id)}
		s.entry.Sender = s
		w.senders = append(w.senders, s)
	}
	return w
}

// free gives a frame back, if it was received.
func (w *roomWorld) free(k int) {
	if f := w.taken[k]; !w.plan.deaf[f.Channel] {
		w.rx.Free(f)
	}
}

// push puts lines of a row on the wire to its copy.
func (w *roomWorld) push(side, off, n int) {
	if n > 0 && !w.plan.direct {
		w.wire[side] = append(w.wire[side], push{off, bytes.Clone(w.rows[side][off : off+n])})
	}
}

func (w *roomWorld) pushFrames() {
	a, b := w.tx.Ranges()
	w.push(senderSide, a.Off, a.N)
	w.push(senderSide, b.Off, b.N)
	w.push(senderSide, SentLine, fabric.LineBytes)
}

// ring wakes the poller of a side if it sleeps. What is on the wire wakes it by itself.
func (w *roomWorld) ring(side int) {
	if w.plan.direct && w.pollers[side].parked {
		w.pollers[side].bell = true
	}
}

// tell is what the reading process does after it published something.
func (w *roomWorld) tell() {
	if !w.rx.Urgent() {
		return
	}
	for lines, l := w.rx.Lines(), 0; lines != 0; lines, l = lines>>1, l+1 {
		if lines&1 == 1 {
			w.push(readerSide, l*fabric.LineBytes, fabric.LineBytes)
		}
	}
	w.ring(senderSide)
}

// look is the step of a poller.
func (w *roomWorld) look(side int) (worked bool) {
	for _, p := range w.wire[1-side] {
		copy(w.copies[1-side][p.off:], p.data)
		worked = true
	}
	w.wire[1-side] = nil
	if side == senderSide {
		return w.wake() > 0 || worked
	}
	for {
		f, err := w.rx.Next()
		if err != nil {
			panic(err)
		}
		if f == nil {
			break
		}
		if !w.plan.deaf[f.Channel] {
			w.rx.Received(f)
		}
		w.taken = append(w.taken, f)
		worked = true
	}
	if w.rx.Answer() {
		w.tell()
	}
	return worked
}

// wake is a round of waking, behind which RP16 holds.
func (w *roomWorld) wake() (woken int) {
	woken = len(w.queue.Wake(w.tx, nil))
	if err := w.check(); w.err == nil {
		w.err = err
	}
	return woken
}

// actions are the actions that are possible: of each sender, the two pollers, and the application
// that gives frames back.
func (w *roomWorld) actions() (possible []int) {
	for i, s := range w.senders {
		if s.state != sent && (s.state != waits || s.entry.Woken()) {
			possible = append(possible, i)
		}
	}
	n := len(w.senders)
	for side := range w.pollers {
		if k := &w.pollers[side]; k.state != asleep || k.bell || len(w.wire[1-side]) > 0 {
			possible = append(possible, n+side)
		}
	}
	if w.tells || w.freed < len(w.plan.frees) && w.plan.frees[w.freed] < len(w.taken) {
		possible = append(possible, n+2)
	}
	return possible
}

func (w *roomWorld) act(action int) error {
	switch n := len(w.senders); {
	case action < n:
		w.send(w.senders[action])
	case action < n+2:
		w.keep(action - n)
	case w.tells:
		w.tells = false
		w.tell()
	default:
		w.free(w.plan.frees[w.freed])
		w.freed++
		w.tells = true
	}
	return w.err
}

// send is an action of a goroutine that sends one frame.
func (w *roomWorld) send(s *roomSender) {
	if s.state == joined {
		s.state = waits
		w.ring(readerSide)
		w.wake()
		return
	}
	if w.tx.Put(Message, s.channel, 0, [][]byte{zeros[:s.bytes]}) == Accepted {
		w.order = append(w.order, s.id)
		w.pushFrames()
		w.ring(readerSide)
		before := s.state
		s.state = sent
		if before == waits {
			w.queue.Leave(&s.entry)
			w.hungry()
			w.wake()
		}
		return
	}
	switch s.state {
	case begins:
		s.state = joined
		w.queue.Join(&s.entry, Message, s.channel, s.bytes)
		w.hungry()
	case waits:
		w.queue.Refused(&s.entry)
		w.wake()
	}
}

func (w *roomWorld) hungry() {
	if w.tx.SetHungry(w.queue.Len() > 0) {
		w.push(senderSide, HungryLine, fabric.LineBytes)
	}
}

func (w *roomWorld) keep(side int) {
	k := &w.pollers[side]
	switch k.state {
	case awake:
		if !w.look(side) {
			k.parked, k.state = true, parking
		}
	case parking:
		k.state = asleep
		if w.look(side) {
			k.parked, k.state = false, awake
		}
	case asleep:
		k.parked, k.bell, k.state = false, false, awake
	}
}

// check computes again which senders have room behind the frames of those that were woken.
func (w *roomWorld) check() error {
	claimed, windows := 0, [Channels]int{}
	for _, s := range w.senders {
		if s.state != sent && s.entry.Woken() {
			claimed += FrameBytes(s.bytes)
			windows[s.channel] += FrameBytes(s.bytes)
		}
	}
	for _, s := range w.senders {
		if s.state == waits && !s.entry.Woken() && w.tx.roomBehind(Message, s.channel, s.bytes, claimed, windows[s.channel]) {
			return fmt.Errorf("RP16: sender %d sleeps and has room on channel %d after %d bytes, %d of them on the channel", s.id, s.channel, claimed, windows[s.channel])
		}
	}
	return nil
}

// end is RP16 when all goroutines sleep: no sender has room, whatever the reader has published, and
// while one waits, the process that sends knows which messages were received.
func (w *roomWorld) end() error {
	for c := range Channels {
		if n := load(w.rows[readerSide], receivedOff+8*c); w.queue.Len() > 0 && n != load(w.copies[readerSide], receivedOff+8*c) {
			return fmt.Errorf("RP16: all sleep, and the sender does not know that %d messages of channel %d were received", n, c)
		}
	}
	w.rx.Publish()
	w.tell()
	w.look(senderSide)
	for _, s := range w.senders {
		if s.state == waits && s.entry.Woken() {
			return fmt.Errorf("RP16: all sleep, and sender %d has room on channel %d", s.id, s.channel)
		}
	}
	return nil
}

// state is what tells one state of a world from another one.
func (w *roomWorld) state(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	text := make([]byte, 0, 512)
	put := func(numbers ...uint64) {
		for _, n := range numbers {
			text = binary.LittleEndian.AppendUint64(text, n)
		}
	}
	flag := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	for i := range w.rows {
		h.Write(w.rows[i][:ControlBytes])
		h.Write(w.copies[i][:ControlBytes])
		for _, p := range w.wire[i] {
			put(uint64(p.off), uint64(len(p.data)))
			h.Write(p.data)
		}
		put(uint64(len(w.wire[i])))
	}
	h.Write(w.order)
	for _, e := range w.queue.entries {
		h.WriteByte(e.Sender.id)
	}
	put(uint64(len(w.order)), uint64(len(w.queue.entries)))
	for _, s := range w.senders {
		put(uint64(s.state), flag(s.entry.woken))
	}
	for _, p := range w.pollers {
		put(uint64(p.state), flag(p.parked), flag(p.bell))
	}
	put(uint64(len(w.taken)), uint64(w.freed), flag(w.tells), w.tx.freed, w.rx.freed)
	for c := range 4 {
		put(uint64(w.tx.channels[c].freed), uint64(w.rx.channels[c].freed))
	}
	h.Write(text)
	return h.Sum64()
}

// exploreRoom plays every order of the actions of a plan, and returns the number of states.
func exploreRoom(plan *roomPlan) (int, error) {
	seed, seen := maphash.MakeSeed(), map[uint64]bool{}
	var visit func(w *roomWorld, path []int) error
	visit = func(w *roomWorld, path []int) error {
		state := w.state(seed)
		if seen[state] {
			return nil
		}
		seen[state] = true
		possible := w.actions()
		if len(possible) == 0 {
			if err := w.end(); err != nil {
				return fmt.Errorf("%w\nafter %v", err, path)
			}
		}
		for i, action := range possible {
			if i > 0 { // the world has gone on
				w = newRoomWorld(plan)
				for _, action := range path {
					w.act(action)
				}
			}
			next := append(path[:len(path):len(path)], action)
			if err := w.act(action); err != nil {
				return fmt.Errorf("%w\nafter %v", err, next)
			}
			if err := visit(w, next); err != nil {
				return err
			}
		}
		return nil
	}
	err := visit(newRoomWorld(plan), nil)
	return len(seen), err
}

const largeFrame = 992 // bytes: two of these fill a window, and four of them the ring

// Every order in which senders on two channels of one ring, the reader that gives room back, and
// the pollers of both act leaves no sender asleep that has room: neither behind a sender to the
// other channel, nor where the reader published nothing of what it freed before (RP16).
func TestASenderThatHasRoomIsWoken(t *testing.T) {
	full := []roomFrame{{1, largeFrame}, {1, largeFrame}, {2, largeFrame}, {2, largeFrame}}
	small := make([]roomFrame, 16)
	for i := range small {
		small[i] = roomFrame{1, 100}
	}
	for name, plan := range map[string]roomPlan{
		"one sender to each channel":                   {before: full, senders: []roomFrame{{1, largeFrame}, {2, largeFrame}}, frees: []int{0, 1, 2}},
		"room in two windows, and in the ring for one": {large: true, before: full, senders: []roomFrame{{1, largeFrame}, {2, largeFrame}, {1, largeFrame}}, frees: []int{0, 2}},
		"small frames and a large one":                 {before: full, senders: []roomFrame{{1, largeFrame}, {2, 100}, {2, 200}}, frees: []int{2}},
		"moved aside while one waits":                  {before: full, late: true, deaf: [4]bool{1: true}, senders: []roomFrame{{3, largeFrame}, {2, 100}}},
		"freed and not published before they wait":     {before: small, freed: []int{1, 2, 3}, senders: []roomFrame{{1, 200}, {1, 100}}},
	} {
		for _, plan.direct = range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, direct %v", name, plan.direct), func(t *testing.T) {
				if plan.large && !plan.direct {
					testutil.Long(t)
				}
				states, err := exploreRoom(&plan)
				if err != nil {
					t.Error(err)
				}
				t.Logf("%d states", states)
			})
		}
	}
}

// The same, of more senders and channels, in orders that a seed chooses.
func TestSendersThatHaveRoomAreWokenInAnyOrder(t *testing.T) {
	worlds := testutil.Seeds[uint64](200, 2000)
	if testing.Short() {
		worlds = 200
	}
	for seed := range worlds {
		if err := runRoom(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func runRoom(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 16))
	plan := &roomPlan{direct: r.IntN(2) == 0, late: r.IntN(4) == 0}
	for c := range plan.deaf {
		plan.deaf[c] = r.IntN(4) == 0
	}
	const channels = 3
	var ring int
	var windows [channels]int
	for ring < MinRingBytes-MinRingBytes/8 {
		f := roomFrame{r.IntN(channels), r.IntN(MaxMessage(MinRingBytes))}
		n := FrameBytes(f.bytes)
		if ring+n > MinRingBytes-align || windows[f.channel]+n > MinRingBytes/2 {
			if r.IntN(8) == 0 {
				break
			}
			continue
		}
		ring, windows[f.channel] = ring+n, windows[f.channel]+n
		plan.before = append(plan.before, f)
	}
	for range 2 + r.IntN(8) {
		plan.senders = append(plan.senders, roomFrame{r.IntN(channels), r.IntN(MaxMessage(MinRingBytes))})
	}
	all := r.Perm(len(plan.before) + len(plan.senders))
	for _, k := range all[:r.IntN(len(all)+1)] {
		if k < len(plan.before) && !plan.late && r.IntN(4) == 0 {
			plan.freed = append(plan.freed, k)
		} else {
			plan.frees = append(plan.frees, k)
		}
	}
	w := newRoomWorld(plan)
	for {
		possible := w.actions()
		if len(possible) == 0 {
			return w.end()
		}
		if err := w.act(possible[r.IntN(len(possible))]); err != nil {
			return err
		}
	}
}
