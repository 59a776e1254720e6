package smc

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
)

// The ring against a dumb model: a slice of messages and a map of bytes. One program is a string of
// bytes, so that the fuzzer and the random test run the same thing: two bytes choose the sizes,
// then two bytes are one operation.

// fate is what became of a claim.
type fate int

const (
	isOpen fate = iota
	isCommitted
	isAborted
)

// message is what the model knows of a claim.
type message struct {
	claim     Claim
	content   []byte
	state     fate
	start     uint64 // position of its record
	moved     bool   // it was open when its ring was taken over
	sent      bool   // without a claim
	published bool
	index     order.Index
	released  bool
}

// model is a sender, a receiver on a replica that gets what is pushed and nothing else, and what
// both should do.
type model struct {
	t       testing.TB
	trace   []string
	sender  *Sender
	rx      Receiver
	row     []byte // the owner's
	replica []byte
	window  int

	messages  []*message
	owner     []int // of each byte of the area: 1 + the number of the claim that occupies the byte, or 0
	published int   // claims that Publish passed
	released  int
	end       uint64 // positions, as smc counts them
	freed     uint64
	ends      []uint64 // of every claim
	size      int      // bytes that the ring is made for

	sent       order.Index
	byIndex    map[order.Index]*message
	taken      order.Index
	everywhere order.Index
}

func newModel(t testing.TB, window, ring int) *model {
	m := &model{t: t}
	m.lay(window, ring)
	return m
}

// lay begins a ring with nothing in it.
func (m *model) lay(window, ring int) {
	m.window, m.size = window, ring
	m.owner, m.byIndex = make([]int, AreaBytes(ring, window)), map[order.Index]*message{}
	m.end, m.freed, m.sent, m.taken, m.everywhere = 0, 0, 0, 0, 0
	m.row, m.replica = aligned(len(m.owner)), aligned(len(m.owner))
	m.sender = NewSender(window, m.row)
	m.rx = NewReceiver(window, m.replica)
}

// aligned returns memory with the alignment of a row.
func aligned(n int) []byte {
	mem, _, err := fabric.NewMemory((n + 63) &^ 63)
	if err != nil {
		panic(err)
	}
	return mem[:n:n]
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	last := m.trace[max(0, len(m.trace)-40):]
	m.t.Fatalf("%s\nthe last operations: %v", fmt.Sprintf(format, args...), last)
}

func (m *model) did(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

// run executes a program.
func run(t testing.TB, program []byte) {
	if len(program) < 2 {
		return
	}
	m := newModel(t, 1<<(2+program[0]%4), 1<<(4+program[1]%5))
	for p := program[2:]; len(p) >= 2; p = p[2:] {
		m.step(p[0], int(p[1]))
		m.invariants()
	}
	m.finish()
}

func (m *model) step(op byte, arg int) {
	switch op % 9 {
	case 0, 1:
		m.claim(arg/2%(m.size/2+1), arg%2 == 0)
	case 2:
		m.close(arg, isCommitted)
	case 3:
		if arg%3 == 0 {
			m.close(arg, isAborted)
		} else {
			m.closeOldest(isCommitted)
		}
	case 4:
		m.publish(1 + arg%8)
	case 5:
		m.did("nulls %d", arg%4)
		m.sent += order.Index(arg % 4)
		if arg >= 252 { // more than a gap has exactly
			m.sent += order.Index(arg) << (arg % 4 * 10)
		}
	case 6:
		for range 1 + arg%8 {
			m.take()
		}
	case 7:
		m.release(arg)
	case 8:
		m.carry(arg)
	}
}

// carry ends the ring at some index that was published, and goes on in another, which is larger now
// and then.
func (m *model) carry(arg int) {
	delivered := m.everywhere + order.Index(arg)%(m.sent-m.everywhere+1)
	for m.taken < delivered {
		m.take()
	}
	for m.released < m.published {
		msg := m.messages[m.released]
		if msg.index >= delivered {
			break
		}
		msg.released = true
		m.released++
	}
	m.did("carry(%d)", delivered)
	window, ring, old := m.window, m.size, m.sender
	if arg%16 == 15 && ring < 1<<12 {
		window, ring = 2*window, 2*ring
	}
	m.lay(window, ring)
	m.sender.Carry(old, delivered)
	m.published = m.released
	for n, msg := range m.messages[m.released:] {
		m.replace(m.released+n, msg)
	}
}

// replace is what becomes of a claim that moves: it lies behind the one before, and was never
// published.
func (m *model) replace(number int, msg *message) {
	size := msg.size()
	if msg.state == isAborted {
		size = HeaderBytes
	}
	msg.start, msg.published, msg.moved = m.end, false, msg.moved || msg.state == isOpen
	for k := range size {
		m.owner[m.end+k] = number + 1 // S7: else this is out of the ring
	}
	m.end += size
	m.ends[number] = m.end
}

// size is its space in bytes.
func (msg *message) size() uint64 { return sizeOf(uint64(len(msg.content))) }

// claim claims space for a message, or sends it at once.
func (m *model) claim(n int, send bool) {
	size, area := sizeOf(uint64(n)), uint64(len(m.owner))
	start := m.end
	if start%area+size > area {
		start += area - start%area
	}
	fits := len(m.messages)-m.released < m.window && start+size-m.freed <= area
	number := len(m.messages)
	msg := &message{content: bytes.Repeat([]byte{byte(number + 1)}, n), start: start}
	var ok bool
	if send {
		ok = m.send(msg)
	} else {
		msg.claim, ok = m.sender.Claim(n)
	}
	m.did("claim(%d, %v)=%v", n, send, ok)
	if ok != fits {
		m.fail("claim of %d bytes: space %v, the model says %v", n, ok, fits)
	}
	if !ok {
		return
	}
	if c := msg.claim; !send && (len(c.Bytes) != n || cap(c.Bytes) != n) {
		m.fail("claim of %d bytes has %d, capacity %d", n, len(c.Bytes), cap(c.Bytes))
	}
	for k := range size {
		if by := m.owner[(start+k)%area]; by != 0 {
			m.fail("S2: claim %d gets byte %d, which claim %d still has", number, (start+k)%area, by-1)
		}
		m.owner[(start+k)%area] = number + 1
	}
	copy(msg.claim.Bytes, msg.content)
	if at := start%area + HeaderBytes; n > 0 && m.row[at] != byte(number+1) {
		m.fail("claim %d is not at %d", number, at)
	}
	m.end = start + size
	m.ends = append(m.ends, m.end)
	m.messages = append(m.messages, msg)
	if msg.claim.Number() != uint64(len(m.messages)) {
		m.fail("S6: claim %d has number %d", number, msg.claim.Number())
	}
}

// send sends a message at once.
func (m *model) send(msg *message) (ok bool) {
	msg.claim.number, ok = m.sender.Send(msg.content, Small)
	msg.state, msg.sent = isCommitted, true
	return ok
}

// close commits or aborts some claim that was ever made; one that is done already must be refused
// (S5).
func (m *model) close(which int, state fate) {
	recent := m.messages[max(0, len(m.messages)-2*m.window):]
	if len(recent) > 0 && !recent[which%len(recent)].sent {
		m.finishClaim(recent[which%len(recent)], state)
	}
}

func (m *model) closeOldest(state fate) {
	for _, msg := range m.messages[m.released:] {
		if msg.state == isOpen {
			m.finishClaim(msg, state)
			return
		}
	}
}

func (m *model) finishClaim(msg *message, state fate) {
	err := m.tryFinish(msg, state)
	m.did("close(claim %d, %d)=%v", msg.claim.number, state, err == nil)
	if msg.state != isOpen {
		if !errors.Is(err, ErrClaimDone) {
			m.fail("S5: claim %d was finished twice: %v", msg.claim.number, err)
		}
		return
	}
	if err != nil {
		m.fail("claim %d: %v", msg.claim.number, err)
	}
	msg.state = state
}

// tryFinish finishes a claim where it is now.
func (m *model) tryFinish(msg *message, state fate) error {
	here, elsewhere := (*Sender).Commit, (*Sender).CommitMoved
	if state == isAborted {
		here, elsewhere = (*Sender).Abort, (*Sender).AbortMoved
	}
	err := here(m.sender, msg.claim)
	older := msg.claim.number <= m.sender.native
	if errors.Is(err, ErrMoved) != older {
		m.fail("claim %d is of an older ring: %v; finishing it says %v", msg.claim.number, older, err)
	}
	if older {
		return elsewhere(m.sender, msg.claim)
	}
	return err
}

func (m *model) publish(limit int) {
	var want []*message
	var total, voids uint64
	for len(want) < limit && m.published < len(m.messages) && m.messages[m.published].state != isOpen {
		msg := m.messages[m.published]
		if want = append(want, msg); msg.state == isCommitted {
			total += uint64(len(msg.content))
		} else {
			voids++
		}
		m.published++
	}
	b, any := m.sender.Publish(m.sent, limit)
	m.did("publish(%d)=%+v", limit, b)
	if any != (len(want) > 0) || b.Messages+b.Voids != uint64(len(want)) || b.Voids != voids || b.Bytes != total {
		m.fail("published %+v, want %d claims, %d of them aborted, %d bytes", b, len(want), voids, total)
	}
	if !any {
		return
	}
	first := b.Next - order.Index(len(want))
	if late := first - m.sent; first < m.sent || late > m.sent>>(exactBits-1) {
		m.fail("the first message is %d, want %d", first, m.sent)
	}
	for i, msg := range want {
		msg.published, msg.index = true, first+order.Index(i)
		if msg.state == isCommitted {
			m.byIndex[msg.index] = msg
		}
	}
	m.sent = b.Next
	for _, r := range b.Ranges {
		copy(m.replica[r.Off:r.Off+r.N], m.row[r.Off:])
	}
	if err := m.rx.See(b.Position); err != nil {
		m.fail("position %d: %v", b.Position, err)
	}
}

// take takes the next index that sent covers, from the replica. It passes over a long silence.
func (m *model) take() {
	if m.taken == m.sent {
		return
	}
	next := min(m.rx.Next(), m.sent)
	for ; m.taken < next && m.byIndex[m.taken] == nil; m.taken++ {
		if next-m.taken > 1000 {
			m.taken = next - 1000
		}
	}
	if m.taken < next {
		m.fail("S3: index %d is not found, the next is %d", m.taken, next)
	}
	if m.taken == m.sent {
		return
	}
	want, back := m.byIndex[m.taken], m.rx
	refilled := m.fill(&back)
	data, kind, err := m.rx.Take()
	m.did("take(%d)=%v", m.taken, kind)
	switch {
	case err != nil:
		m.fail("S4: index %d: %v", m.taken, err)
	case (kind != Void) != (want != nil):
		m.fail("index %d is a message: %v, want %v", m.taken, kind != Void, want != nil)
	case want != nil && !bytes.Equal(data, want.content):
		m.fail("index %d is %v, want %v", m.taken, data, want.content)
	case cap(data) != len(data):
		m.fail("index %d has %d bytes and space for %d", m.taken, len(data), cap(data))
	}
	m.rx.Pass()
	m.taken++
	if refilled && (back.off != m.rx.off || back.left != m.rx.left || back.next != m.rx.next || back.head != m.rx.head) {
		m.fail("of several messages all but one are given back: %+v, want %+v", back, m.rx)
	}
}

// fill takes several messages from a copy of the receiver, and gives back all but one. It reports
// whether there were several.
func (m *model) fill(back *Receiver) bool {
	var got [4][]byte
	filler, stride := m.rx, unsafe.Sizeof(got[0])
	n := filler.Fill(&got[0], stride, len(got), 1<<20)
	for k := range n {
		if want := m.byIndex[m.taken+order.Index(k)]; want == nil || !bytes.Equal(got[k], want.content) {
			m.fail("index %d of %d is filled with %v", m.taken+order.Index(k), n, got[k])
		}
	}
	if n > 1 {
		back.Refill(&got[0], stride, 1)
	}
	return n > 1
}

// release has some of what was taken delivered everywhere.
func (m *model) release(arg int) {
	m.everywhere += order.Index(arg) % (m.taken - m.everywhere + 1)
	before := m.released
	for m.released < m.published {
		msg := m.messages[m.released]
		if msg.index >= m.everywhere {
			break
		}
		msg.released, m.freed = true, m.ends[m.released]
		m.released++
	}
	for k, by := range m.owner {
		if by != 0 && m.messages[by-1].released {
			m.owner[k] = 0
		}
	}
	freed := m.sender.Release(m.everywhere)
	m.did("release(%d)=%v", m.everywhere, freed)
	if freed != (m.released > before) {
		m.fail("release up to %d freed space: %v, want %v", m.everywhere, freed, m.released > before)
	}
}

func (m *model) invariants() {
	unfinished, foreign := 0, 0
	for _, msg := range m.messages[m.released:] {
		if msg.state == isOpen {
			unfinished++
			if msg.moved {
				foreign++
			}
		}
	}
	s := m.sender
	if s.Foreign() != foreign {
		m.fail("%d open claims have their bytes in an older ring, want %d", s.Foreign(), foreign)
	}
	if s.InUse() != len(m.messages)-m.released || s.Unfinished() != unfinished {
		m.fail("in use %d, unfinished %d; want %d, %d", s.InUse(), s.Unfinished(), len(m.messages)-m.released, unfinished)
	}
	if s.InUse() > m.window {
		m.fail("S1: %d claims in use, window %d", s.InUse(), m.window)
	}
	// What is published and not released must still be as it was written (S2, S3).
	for n, msg := range m.messages[m.released:] {
		at := msg.start%uint64(len(m.owner)) + HeaderBytes
		if msg.published && msg.state == isCommitted && !bytes.Equal(m.row[at:at+uint64(len(msg.content))], msg.content) {
			m.fail("S2: claim %d was overwritten", msg.claim.number)
		}
		if msg.state == isOpen && !bytes.Equal(msg.claim.Bytes, msg.content) {
			m.fail("S2: claim %d was overwritten while it is open", msg.claim.number)
		}
		m.checkIndex(m.released+n, msg)
	}
}

// checkIndex asks for the index of a claim.
func (m *model) checkIndex(number int, msg *message) {
	index, ok := m.sender.Published(msg.claim.number)
	if ok != (number < m.published) || ok && index != msg.index {
		m.fail("claim %d is published: %v, at %d; want %d", msg.claim.number, ok, index, msg.index)
	}
}

// finish commits, publishes, takes and releases everything: then all space is free, and the largest
// message fits.
func (m *model) finish() {
	for m.released < len(m.messages) {
		m.closeOldest(isCommitted)
		m.publish(m.window)
		for m.taken < m.sent {
			m.take()
		}
		m.release(int(m.taken - m.everywhere))
		m.invariants()
	}
	if limit := m.sender.MaxMessage(); limit != m.size/2 {
		m.fail("the largest message is %d, of a ring of %d", limit, m.size)
	}
	m.claim(m.sender.MaxMessage(), false)
	if m.sender.InUse() != 1 {
		m.fail("an empty ring has no space for its largest message")
	}
}

func FuzzRing(f *testing.F) {
	f.Add([]byte{0, 0, 0, 8, 2, 0, 4, 1, 6, 1, 7, 1})
	f.Add([]byte{0, 0, 0, 8, 0, 3, 8, 0, 2, 0, 8, 0, 4, 1, 2, 1, 8, 15, 4, 1, 6, 1, 7, 1})
	f.Add([]byte("\x01\x02 a long enough program does a bit of everything, wraps included"))
	f.Fuzz(func(t *testing.T, program []byte) { run(t, program[:min(len(program), 4096)]) })
}

func TestRingsDoAsTheModelDoes(t *testing.T) {
	programs, seed := testutil.Seeds(8, 60), testutil.Seed(t)
	for window := range byte(4) {
		for ring := range byte(5) {
			t.Run(fmt.Sprintf("window=%d/ring=%d", 4<<window, 16<<ring), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, uint64(window)<<8|uint64(ring)))
				for range programs {
					program := []byte{window, ring}
					for range 1200 {
						program = append(program, byte(random.Uint32()))
					}
					run(t, program)
				}
			})
		}
	}
}

// Every program of a few operations on the smallest ring.
func TestTheSmallestRingDoesAsTheModelDoesExhaustively(t *testing.T) {
	operations := [][2]byte{{0, 0}, {0, 7}, {0, 16}, {1, 9}, {2, 0}, {3, 0}, {4, 7}, {5, 1}, {6, 7}, {7, 255}, {8, 1}}
	depth := testutil.Seeds(4, 5)
	program := []byte{0, 0}
	var extend func(int)
	extend = func(left int) {
		if left == 0 {
			run(t, program)
			return
		}
		for _, op := range operations {
			program = append(program, op[0], op[1])
			extend(left - 1)
			program = program[:len(program)-2]
		}
	}
	extend(depth)
}
