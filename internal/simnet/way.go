package simnet

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/mutant"
)

// lineRoom is what a line takes of a socket: its offset and its words.
const lineRoom = 8 + fabric.LineBytes

// way is one direction of a pair.
//
//	pending → frame (what the socket has not taken of it) → flight[head:] → the receiver's replica
type way struct {
	net      *Net
	from, to *node
	path     *path
	row      []byte // the sender's
	random   *rand.Rand

	pending fabric.Pending
	store   []fabric.Range // memory of ranges
	ranges  []fabric.Range // of the frame at hand: what the socket has not taken
	lines   []int          // of the frame at hand, offsets
	words   []uint64       // of these lines, as they were when the frame was laid out
	sent    int            // of these lines, in the socket
	waited  bool           // the frame at hand met a full socket

	buffers
	head    int
	held    int // bytes of socket in use
	last    time.Duration
	ended   bool
	endAt   time.Duration
	halfway bool // bytes of a frame arrived, its lines did not

	shown []uint64 // Seeping: the sender's words as pushed last
	whole int      // Seeping: so many pieces at the front are seen together
}

// buffers are what a way has in flight. They are used again, by another way.
type buffers struct {
	flight  []piece
	data    []byte   // of the pieces in flight
	carried []uint64 // the words of the lines in flight and in the lineup
	lineup  []piece  // lines of a frame that arrived before the last of them
}

// leave says that the receiver looks no more.
func (w *way) leave() {
	w.net.spare = append(w.net.spare, buffers{w.flight[:0], w.data[:0], w.carried[:0], w.lineup[:0]})
	w.buffers, w.head = buffers{}, 0
}

// piece is a part of a frame in flight, or on a Seeping pair a range or a word that is not visible
// yet.
type piece struct {
	at     time.Duration
	off, n int // n == 0: the word or the line at off
	start  int // of its bytes in data, or of its words in carried
	word   uint64
	room   int
	line   bool // all words of a line
	last   bool // the last line of a frame
}

// words is the number of ranges and words that a piece stands for.
func (p *piece) words() int {
	if p.line {
		return fabric.WordsPerLine
	}
	return 1
}

func (w *way) push(off, n int) {
	before := len(w.pending.Ranges)
	w.pending.Push(off, n)
	if len(w.pending.Ranges) == before {
		w.net.Stats.Coalesced++
	}
}

func (w *way) pushLine(off int) {
	before := len(w.pending.Lines)
	w.pending.PushLine(off)
	if len(w.pending.Lines) == before {
		w.net.Stats.Coalesced++
	}
}

func (w *way) busy() bool { return len(w.ranges) > 0 || w.sent < len(w.lines) }

// flush hands over as much as the socket takes, frame after frame (Z2).
func (w *way) flush() (work bool) {
	for {
		if !w.busy() {
			if w.pending.Empty() {
				return work
			}
			w.frame()
		}
		if w.room() == 0 {
			w.forget()
		} else if w.transmit() {
			work = true
			w.net.due(w.to.id, w.flight[len(w.flight)-1].at)
		}
		if w.busy() {
			if !w.waited {
				w.waited = true
				w.net.Stats.SocketFull++
			}
			return work
		}
	}
}

// frame takes what is pending: ranges by reference, lines as they are now.
func (w *way) frame() {
	n, limit := len(w.pending.Ranges), w.net.opts.FrameRanges
	if limit > 0 && n > limit {
		n = limit
	}
	w.store = append(w.store[:0], w.pending.Ranges[:n]...)
	w.random.Shuffle(n, func(i, j int) { w.store[i], w.store[j] = w.store[j], w.store[i] }) // they mean nothing before the lines are here
	w.ranges, w.lines, w.sent, w.words, w.waited = w.store, w.lines[:0], 0, w.words[:0], false
	if n == len(w.pending.Ranges) || w.net.opts.Bug == EarlyLines {
		for _, off := range w.pending.Lines {
			w.lines = append(w.lines, off)
			for k := range fabric.WordsPerLine {
				w.words = append(w.words, atomic.LoadUint64(fabric.Word(w.row, off+8*k)))
			}
		}
	}
	w.pending.Taken(n)
	w.net.Stats.Frames++
}

// transmit moves the frame at hand into the socket as far as it has room. Bytes are copied now:
// their owner does not change them while a peer needs them.
func (w *way) transmit() (work bool) {
	at := w.arrival()
	if w.net.opts.Bug == LinesFirst {
		work = w.transmitLines(at)
	}
	for len(w.ranges) > 0 {
		r := &w.ranges[0]
		n := min(r.N, w.room())
		if limit := w.net.opts.PieceBytes; limit > 0 && n > limit {
			n = 1 + w.random.IntN(limit)
		}
		if n == 0 {
			w.forget()
			return work
		}
		w.sendBytes(at, r.Off, n)
		work = true
		if r.Off, r.N = r.Off+n, r.N-n; r.N == 0 {
			w.ranges = w.ranges[1:]
		} else {
			at = w.arrival()
		}
	}
	return w.transmitLines(at) || work
}

func (w *way) transmitLines(at time.Duration) (work bool) {
	if w.waited && w.net.opts.Bug == LostLines {
		w.sent = len(w.lines)
	}
	for ; w.sent < len(w.lines) && w.room() > 0; w.sent++ {
		w.sendLine(at, w.lines[w.sent], w.words[w.sent*fabric.WordsPerLine:][:fabric.WordsPerLine])
		w.flight[len(w.flight)-1].last = w.sent == len(w.lines)-1
		work = true
	}
	return work
}

// forget is a bug: the rest of a frame's ranges is dropped when the socket is full.
func (w *way) forget() {
	if w.net.opts.Bug == LostRanges {
		w.ranges = w.ranges[:0]
	}
}

func (w *way) room() int {
	if w.net.opts.SocketBytes == 0 {
		return math.MaxInt
	}
	return max(0, w.net.opts.SocketBytes-w.held)
}

// arrival draws when what is sent now is there: not before what was sent earlier (F2).
func (w *way) arrival() time.Duration {
	at := w.net.arrival(w.path, w.random)
	if w.net.opts.Bug != Overtaking {
		at = max(at, w.last)
	}
	w.last = max(w.last, at)
	return at
}

// arrival draws when something is there that is sent now.
func (n *Net) arrival(p *path, random *rand.Rand) time.Duration {
	d := p.delay
	at := n.now + d.Base
	if d.Jitter > 0 {
		at += time.Duration(random.Int64N(int64(d.Jitter) + 1))
	}
	if d.TailEvery > 0 && random.IntN(d.TailEvery) == 0 {
		at += time.Duration(random.Int64N(int64(d.Tail) + 1))
		n.Stats.Tails++
	}
	return at
}

// notice draws how long the news of an end takes.
func (n *Net) notice(random *rand.Rand) time.Duration {
	if n.opts.NoticeAfter <= 0 {
		return 0
	}
	return time.Duration(random.Int64N(int64(n.opts.NoticeAfter) + 1))
}

func (w *way) sendBytes(at time.Duration, off, n int) {
	w.enqueue(piece{at: at, off: off, n: n, room: n}, w.row[off:off+n])
	w.net.Stats.Pieces++
	switch p := &w.flight[len(w.flight)-1]; {
	case w.net.opts.Bug == FlippedByte && w.random.IntN(64) == 0:
		w.data[p.start+w.random.IntN(n)] ^= 1 << w.random.IntN(8)
	case w.net.opts.Bug == StrayBytes && w.random.IntN(64) == 0 && off+n+8 <= len(w.row):
		p.off += 8
	}
}

// sendLine sends a line.
func (w *way) sendLine(at time.Duration, off int, words []uint64) {
	w.rewind()
	w.flight = append(w.flight, piece{at: at, off: off, start: len(w.carried), room: lineRoom, line: true})
	w.carried = append(w.carried, words...)
	w.held += lineRoom
	w.net.Stats.Lines++
}

func (w *way) enqueue(p piece, data []byte) {
	w.rewind()
	p.start = len(w.data)
	w.data = append(w.data, data...)
	w.flight = append(w.flight, p)
	w.held += p.room
}

// rewind uses the memory of what was in flight again, once nothing is.
func (w *way) rewind() {
	switch {
	case w.head < len(w.flight):
		return
	case w.flight != nil:
	case len(w.net.spare) > 0:
		last := len(w.net.spare) - 1
		w.buffers, w.net.spare = w.net.spare[last], w.net.spare[:last]
	default:
		w.flight = make([]piece, 0, 16)
	}
	w.flight, w.data, w.head = w.flight[:0], w.data[:0], 0
	if len(w.lineup) == 0 {
		w.carried = w.carried[:0]
	}
}

// arrive applies what is due.
func (w *way) arrive(replica []byte) (work bool) {
	if w.net.opts.Bug == Overtaking {
		return w.arriveOutOfOrder(replica)
	}
	for w.head < len(w.flight) && w.flight[w.head].at <= w.net.now {
		p := &w.flight[w.head]
		w.head++
		w.take(p, replica)
		work = true
		if w.net.opts.Bug == StaleLines && p.line {
			w.repeat(*p)
		}
	}
	if work && w.busy() {
		w.net.due(w.from.id, w.net.now)
	}
	if w.head < len(w.flight) && w.halfway && work {
		w.net.Stats.HalfFrames++
	}
	return work
}

// take takes one piece out of the socket. The lines of a frame become visible together, when the
// last of them is here.
func (w *way) take(p *piece, replica []byte) {
	if p.n > 0 || p.last && len(w.lineup) == 0 {
		w.apply(p, replica)
		return
	}
	w.held -= p.room
	p.room = 0
	if w.lineup = append(w.lineup, *p); !p.last {
		return
	}
	for i := range w.lineup {
		w.apply(&w.lineup[i], replica)
	}
	w.lineup = w.lineup[:0]
}

// apply makes one piece visible.
func (w *way) apply(p *piece, replica []byte) {
	switch {
	case p.n > 0:
		copy(replica[p.off:p.off+p.n], w.data[p.start:])
	case p.line:
		for k, word := range w.carried[p.start:][:fabric.WordsPerLine] {
			atomic.StoreUint64(fabric.Word(replica, p.off+8*k), word)
		}
	default:
		atomic.StoreUint64(fabric.Word(replica, p.off), p.word)
	}
	w.halfway = p.n > 0
	w.held -= p.room
}

// arriveOutOfOrder is a bug: what is due does not wait for what went ahead of it.
func (w *way) arriveOutOfOrder(replica []byte) (work bool) {
	rest := w.flight[:w.head]
	for _, p := range w.flight[w.head:] {
		if p.at <= w.net.now {
			w.apply(&p, replica)
			work = true
		} else {
			rest = append(rest, p)
		}
	}
	w.flight = rest
	return work
}

// repeat is a bug: words of a line arrive again, behind everything that is in flight.
func (w *way) repeat(line piece) {
	for k := range fabric.WordsPerLine {
		if w.random.IntN(256) == 0 {
			w.enqueue(piece{at: w.last, off: line.off + 8*k, word: w.carried[line.start+k], last: true}, nil)
		}
	}
}

// storeRange notes a pushed range of a Seeping pair with its bytes as they are now. It becomes
// visible in any order with the ranges that were pushed since the last word was stored.
func (w *way) storeRange(off, n int) {
	w.enqueue(piece{off: off, n: n}, w.row[off:off+n])
	last, first := len(w.flight)-1, len(w.flight)-1
	for first > w.head && w.flight[first-1].n > 0 {
		first--
	}
	if first < last && w.whole == 0 {
		other := first + w.random.IntN(last-first+1)
		w.flight[last], w.flight[other] = w.flight[other], w.flight[last]
	}
}

// storeLine notes the words of a line that changed since it was pushed last, in the order of their
// stores.
func (w *way) storeLine(off int) {
	for _, k := range w.net.opts.StoreOrder {
		at := off + 8*k
		if v := atomic.LoadUint64(fabric.Word(w.row, at)); v != w.shown[at/8] {
			w.shown[at/8] = v
			w.enqueue(piece{off: at, word: v}, nil)
		}
	}
}

// storeAll notes the whole row as it is now, to be seen together: a mapping shows what was stored
// before it was made.
func (w *way) storeAll() {
	before := len(w.flight)
	if control := 8 * len(w.shown); control < len(w.row) && !blank(w.row) {
		w.storeRange(control, len(w.row)-control)
	}
	for off := 0; off < 8*len(w.shown); off += fabric.LineBytes {
		w.storeLine(off)
	}
	w.whole = len(w.flight) - before
}

// blank reports that nothing was ever stored in a row.
func blank(row []byte) bool {
	for off := 0; off < len(row); off += 8 {
		if *fabric.Word(row, off) != 0 {
			return false
		}
	}
	return true
}

// seep makes some of a Seeping pair's writes visible: half the time all, else any number.
func (w *way) seep(replica []byte) (work bool) {
	n := len(w.flight) - w.head
	if n == 0 {
		return false
	}
	if w.random.IntN(2) == 0 {
		n = w.random.IntN(n + 1)
	}
	if n < w.whole {
		return false
	}
	w.whole = 0
	return w.show(replica, n)
}

// freeze leaves a Seeping pair's replica as a copy is that is made of it word by word from the
// start, while its owner's writes go on becoming visible: what is copied later is newer. What is
// not visible at the end never will be.
func (w *way) freeze(replica []byte) {
	var copied []uint64
	for len(copied) < len(w.shown) {
		if w.random.IntN(4) == 0 {
			w.seep(replica)
		}
		for range 1 + w.random.IntN(2*fabric.WordsPerLine) {
			if len(copied) < len(w.shown) {
				copied = append(copied, *fabric.Word(replica, 8*copiedAs(len(copied))))
			}
		}
	}
	if w.random.IntN(4) == 0 {
		w.seep(replica)
	}
	for k, v := range copied {
		*fabric.Word(replica, 8*copiedAs(k)) = v
	}
	w.net.Stats.Unseen += len(w.flight) - w.head
	w.head = len(w.flight)
}

// copiedAs is which word a freeze copies as number k.
func copiedAs(k int) int {
	if mutant.Enabled && mutant.On(mutant.SecondFirst) && k%fabric.WordsPerLine < 2 {
		return k ^ 1
	}
	return k
}

func (w *way) show(replica []byte, n int) bool {
	for i := range n {
		w.apply(&w.flight[w.head+i], replica)
	}
	w.head += n
	if n > 0 && w.head < len(w.flight) {
		a, b := w.flight[w.head-1], w.flight[w.head]
		if a.n == 0 && b.n == 0 && a.off/fabric.LineBytes == b.off/fabric.LineBytes {
			w.net.Stats.TornLines++
		}
	}
	return n > 0
}

// end has the receiver hear of the end, some time after what was sent.
func (w *way) end() {
	w.ended = true
	w.endAt = max(w.last, w.net.now) + w.net.notice(w.random)
	w.net.due(w.to.id, w.endAt)
	w.ranges, w.lines, w.sent, w.pending = nil, nil, 0, fabric.NewPending(8*len(w.shown))
}

// lose drops what is in flight from some piece on.
func (w *way) lose() {
	n := 0
	for i := range w.flight[w.head:] {
		n += w.flight[w.head+i].words()
	}
	if n == 0 {
		return
	}
	keep, end := w.random.IntN(n+1), w.head
	for end < len(w.flight) && w.flight[end].words() <= keep { // a line is taken in whole or not at all
		words := w.flight[end].words()
		keep, n, end = keep-words, n-words, end+1
	}
	w.net.Stats.LostInFlight += n
	w.flight = w.flight[:end]
}
