package smc

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

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
	claim    Claim
	content  []byte
	state    fate
	start    uint64 // position of its room
	moved    bool   // it was open when its ring was taken over
	stamped  bool
	index    order.Index
	released bool
}

// model is a sender, a receiver on a replica that gets what is pushed and nothing else, and what
// both should do.
type model struct {
	t       testing.TB
	trace   []string
	sender  *Sender
	rx      Receiver
	row     [2][]byte // descriptors, bytes: the owner's
	replica [2][]byte
	window  int

	messages  []*message
	owner     []int // of each byte of the ring: 1 + the number of the claim that occupies the byte, or 0
	published int   // claims that Publish passed
	released  int
	end       uint64 // positions, as smc counts them
	freed     uint64
	ends      []uint64 // of every claim

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
	m.window, m.owner, m.byIndex = window, make([]int, ring), map[order.Index]*message{}
	m.end, m.freed, m.sent, m.taken, m.everywhere = 0, 0, 0, 0, 0
	for _, side := range []*[2][]byte{&m.row, &m.replica} {
		mem := aligned(window*DescriptorBytes + ring)
		side[0], side[1] = mem[:window*DescriptorBytes], mem[window*DescriptorBytes:]
	}
	m.sender = NewSender(m.row[0], m.row[1])
	m.rx = NewReceiver(m.replica[0], m.replica[1])
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
		m.claim(arg % (len(m.owner)/2 + 1))
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
		if msg.state == isCommitted && msg.index >= delivered {
			break
		}
		msg.released = true
		m.released++
	}
	m.did("carry(%d)", delivered)
	window, ring, old := m.window, len(m.owner), m.sender
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
		size = 0
	}
	msg.start, msg.stamped, msg.moved = m.end, false, msg.moved || msg.state == isOpen
	for k := range size {
		m.owner[m.end+k] = number + 1 // S7: else this is out of the ring
	}
	m.end += size
	m.ends[number] = m.end
}

// size is its room in bytes.
func (msg *message) size() uint64 { return uint64(len(msg.content)+align-1) &^ (align - 1) }

func (m *model) claim(n int) {
	size, ring := uint64(n+align-1)&^(align-1), uint64(len(m.owner))
	start := m.end
	if start%ring+size > ring {
		start += ring - start%ring
	}
	fits := len(m.messages)-m.released < m.window && start+size-m.freed <= ring
	c, ok := m.sender.Claim(n)
	m.did("claim(%d)=%v", n, ok)
	if ok != fits {
		m.fail("claim of %d bytes: room %v, the model says %v", n, ok, fits)
	}
	if !ok {
		return
	}
	if len(c.Bytes) != n || cap(c.Bytes) != n {
		m.fail("claim of %d bytes has %d, capacity %d", n, len(c.Bytes), cap(c.Bytes))
	}
	number := len(m.messages)
	for k := range size {
		if by := m.owner[(start+k)%ring]; by != 0 {
			m.fail("S2: claim %d gets byte %d, which claim %d still has", number, (start+k)%ring, by-1)
		}
		m.owner[(start+k)%ring] = number + 1
	}
	content := bytes.Repeat([]byte{byte(number + 1)}, n)
	copy(c.Bytes, content)
	if n > 0 && m.row[1][start%ring] != byte(number+1) {
		m.fail("claim %d is not at %d", number, start%ring)
	}
	m.end = start + size
	m.ends = append(m.ends, m.end)
	m.messages = append(m.messages, &message{claim: c, content: content, start: start})
	if c.Number() != uint64(len(m.messages)) {
		m.fail("S6: claim %d has number %d", number, c.Number())
	}
}

// close commits or aborts some claim that was ever made; one that is done already must be refused
// (S5).
func (m *model) close(which int, state fate) {
	if len(m.messages) == 0 {
		return
	}
	recent := m.messages[max(0, len(m.messages)-2*m.window):]
	m.finishClaim(recent[which%len(recent)], state)
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
	total := uint64(0)
	for len(want) < limit && m.published < len(m.messages) && m.messages[m.published].state != isOpen {
		if msg := m.messages[m.published]; msg.state == isCommitted {
			want, total = append(want, msg), total+uint64(len(msg.content))
		}
		m.published++
	}
	count, n := m.sender.Publish(m.sent, limit)
	m.did("publish(%d)=%d", limit, count)
	if int(count) != len(want) || n != total {
		m.fail("published %d messages of %d bytes, want %d of %d", count, n, len(want), total)
	}
	for _, msg := range want {
		msg.stamped, msg.index = true, m.sent
		m.byIndex[m.sent] = msg
		m.sent++
	}
	if count == 0 {
		return
	}
	a, b := m.sender.DescriptorRanges(count)
	for _, r := range []fabric.Range{a, b} {
		copy(m.replica[0][r.Off:r.Off+r.N], m.row[0][r.Off:])
	}
	for _, r := range m.sender.ByteRanges() {
		for k := r.Off; k < r.Off+r.N; k++ {
			if by := m.owner[k]; by == 0 || !m.messages[by-1].stamped {
				m.fail("byte %d is pushed, of claim %d, which is not published", k, by-1)
			}
		}
		copy(m.replica[1][r.Off:r.Off+r.N], m.row[1][r.Off:])
	}
}

// take takes the next index that sent covers, from the replica.
func (m *model) take() {
	if m.taken == m.sent {
		return
	}
	want := m.byIndex[m.taken]
	data, kind, err := m.rx.Take(m.taken)
	real := kind != Null
	m.did("take(%d)=%v", m.taken, real)
	switch {
	case err != nil:
		m.fail("S4: index %d: %v", m.taken, err)
	case real != (want != nil):
		m.fail("index %d is a message: %v, want %v", m.taken, real, want != nil)
	case real && !bytes.Equal(data, want.content):
		m.fail("index %d is %v, want %v", m.taken, data, want.content)
	case real && cap(data) != len(data):
		m.fail("index %d has %d bytes and space for %d", m.taken, len(data), cap(data))
	}
	m.taken++
}

// release has some of what was taken delivered everywhere.
func (m *model) release(arg int) {
	m.everywhere += order.Index(arg) % (m.taken - m.everywhere + 1)
	before := m.released
	for m.released < m.published {
		msg := m.messages[m.released]
		if msg.state == isCommitted && msg.index >= m.everywhere {
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
		m.fail("release up to %d freed room: %v, want %v", m.everywhere, freed, m.released > before)
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
		at := msg.start % uint64(len(m.owner))
		if msg.stamped && !bytes.Equal(m.row[1][at:at+uint64(len(msg.content))], msg.content) {
			m.fail("S2: claim %d was overwritten", msg.claim.number)
		}
		if msg.state == isOpen && !bytes.Equal(msg.claim.Bytes, msg.content) {
			m.fail("S2: claim %d was overwritten while it is open", msg.claim.number)
		}
		m.checkIndex(m.released+n, msg)
	}
	m.counts()
}

// counts asks how many messages wait, and how many were taken that are not delivered everywhere.
func (m *model) counts() {
	var waiting, taken uint64
	for i := m.everywhere; i < m.sent; i++ {
		switch {
		case m.byIndex[i] == nil:
		case i < m.taken:
			taken++
		default:
			waiting++
		}
	}
	if n := m.rx.Waiting(m.taken, m.sent); n != waiting {
		m.fail("%d messages wait, want %d", n, waiting)
	}
	if n := m.rx.TakenFrom(m.everywhere, m.taken); n != taken {
		m.fail("%d messages were taken from %d on, want %d", n, m.everywhere, taken)
	}
}

// checkIndex asks for the index of a claim.
func (m *model) checkIndex(number int, msg *message) {
	want := msg.index
	if msg.state == isAborted {
		want = NoIndex
	}
	index, ok := m.sender.Published(msg.claim.number)
	if ok != (number < m.published) || ok && index != want {
		m.fail("claim %d is published: %v, at %d; want %d", msg.claim.number, ok, index, want)
	}
}

// finish commits, publishes, takes and releases everything: then all room is free, and the largest
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
	if limit := m.sender.MaxMessage(); limit != len(m.owner)/2 {
		m.fail("the largest message is %d, of a ring of %d", limit, len(m.owner))
	}
	m.claim(m.sender.MaxMessage())
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
	operations := [][2]byte{{0, 0}, {0, 3}, {0, 8}, {2, 0}, {3, 0}, {4, 7}, {5, 1}, {6, 7}, {7, 255}, {8, 1}}
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
