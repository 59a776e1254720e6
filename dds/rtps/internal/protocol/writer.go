package protocol

import (
	"slices"
	"sort"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// Change is a sample that a writer of this participant writes.
type Change struct {
	Source  int64 // time, in nanoseconds since the Unix epoch
	Status  wire.Status
	Key     string // of the instance, for a history with a depth
	Payload []byte // with its encapsulation and its padding to a multiple of four; of a status, the serialized key. It must not be changed
}

// Writer is a writer of this participant.
type Writer struct {
	p        *Participant
	Endpoint wire.Endpoint
	proxies  []*remoteReader

	// changes are the kept samples in the order of their numbers; changes[0] has the number first. A
	// sample that is not needed any more is marked gone. It is removed when no sample stands before
	// it, or when more than half of the samples are gone.
	first   int64
	last    int64 // that was written
	changes []change
	gone    int
	freed   int64            // of the samples below, all are gone or part of the history
	total   int64            // bytes of all samples so far
	history *History         // of a writer that is not of discovery
	lasting int              // changes of it that the history has
	kept    map[string]int64 // of discovery: the last word on each endpoint, by its key
	ended   []string         // keys of endpoints that have ended, of discovery
	count   uint32
	full    bool            // the host was told that there is no room
	silent  []*remoteReader // that do not match any more because they did not answer
}

type change struct {
	Change
	seq     int64
	gone    bool
	durable bool  // it is part of the history
	size    int64 // of the payload
	end     int64 // bytes of all samples up to this one
}

// remoteReader is a writer's proxy of a reader that matches it.
type remoteReader struct {
	of       *peer
	out      *outbox // where what is for it is put together
	Endpoint wire.Endpoint
	reliable bool
	begun    bool  // it knows where it begins
	start    int64 // the first sample that it gets
	live     int64 // of earlier samples, it gets the history only
	acked    int64 // it has all below
	sent     int64 // … and was sent all below
	count    int64 // of its last answer, -1: none
	frags    int64
	beats    int           // heartbeats since its last answer
	every    time.Duration // until the next one
	at       int64         // when the next heartbeat is due
	asked    int64         // when it was first asked since its last answer; 0: it owes none
	offset   int64         // of the numbers that it sees
}

// unacknowledged is how many samples a writer keeps for readers that have not acknowledged them.
const unacknowledged = 4096

func (p *Participant) newWriter(e wire.Endpoint) *Writer {
	return &Writer{p: p, Endpoint: e, first: 1, history: NewHistory(&e.QoS.Service), kept: map[string]int64{}}
}

// Lasts reports whether a history has samples of the writer.
func (w *Writer) Lasts() bool { return w.lasting > 0 }

// Share has a writer that has written nothing put its samples into a history of several writers.
func (w *Writer) Share(h *History) { w.history = h }

func (w *Writer) next() int64 { return w.last + 1 }

func (w *Writer) builtin() bool { return w.Endpoint.GUID.Entity.Builtin() }

// Room reports whether the writer may write. The host is told when it has room again.
func (w *Writer) Room() bool {
	low := w.acked()
	w.full = w.next()-low >= unacknowledged || w.bytesFrom(low) >= 8*int64(w.p.cfg.WindowBytes)
	return !w.full
}

// acked is the least that reliable readers have acknowledged: all below.
func (w *Writer) acked() int64 {
	low := w.next()
	for _, r := range w.proxies {
		if r.reliable {
			low = min(low, r.acked)
		}
	}
	return low
}

// bytesFrom is the size of the samples from one on.
func (w *Writer) bytesFrom(seq int64) int64 {
	if i := w.find(seq); i < len(w.changes) {
		return w.total - w.changes[i].end + w.changes[i].size
	}
	return 0
}

// Write writes a sample. It is sent as far as the windows of the readers go, with the next Flush.
func (w *Writer) Write(c Change) {
	w.total += int64(len(c.Payload))
	n := change{Change: c, size: int64(len(c.Payload)), end: w.total, durable: w.Endpoint.QoS.Durability > qos.Volatile}
	if w.builtin() { // the last word on an endpoint counts
		w.drop(w.at(w.kept[c.Key]))
		w.tidy()
		if c.Status != 0 {
			w.end(c.Key)
		}
	}
	w.last++
	n.seq = w.last
	w.changes = append(w.changes, n)
	switch {
	case w.builtin():
		w.kept[c.Key] = n.seq
	case n.durable:
		w.history.add(w, &w.changes[len(w.changes)-1])
	}
	if len(w.proxies) == 0 {
		w.release()
		return
	}
	w.pump()
}

// ends is of how many endpoints that have ended a participant is told which had forgotten this one
// meanwhile.
const ends = 64

// end remembers the end of an endpoint, and forgets the oldest end if there are more than the
// constant ends allows.
func (w *Writer) end(key string) {
	if w.ended = append(w.ended, key); len(w.ended) <= ends {
		return
	}
	if c := w.at(w.kept[w.ended[0]]); c != nil {
		w.exclude(c)
	}
	delete(w.kept, w.ended[0])
	w.ended = w.ended[1:]
}

// expire takes a sample out of the history: a reader that matches later does not get it.
func (w *Writer) expire(seq int64) {
	c := w.at(seq)
	if c == nil {
		return
	}
	if w.exclude(c); seq < w.acked() {
		w.drop(c)
		w.tidy()
	}
}

// exclude takes a sample out of the history. It goes when no reader lacks it.
func (w *Writer) exclude(c *change) {
	c.durable, w.freed = false, min(w.freed, c.seq)
}

// find returns where a sample is, or the first one behind it.
func (w *Writer) find(seq int64) int {
	if i := seq - w.first; i >= 0 && i < int64(len(w.changes)) && w.changes[i].seq == seq { // none before it was removed
		return int(i)
	}
	return sort.Search(len(w.changes), func(i int) bool { return w.changes[i].seq >= seq })
}

// at returns a sample, or nil if it was removed or not written yet.
func (w *Writer) at(seq int64) *change {
	if i := w.find(seq); i < len(w.changes) && w.changes[i].seq == seq {
		return &w.changes[i]
	}
	return nil
}

// drop says that a sample is not needed any more.
func (w *Writer) drop(c *change) {
	if c != nil && !c.gone {
		c.gone, c.durable, c.Payload, c.Key = true, false, nil, ""
		w.gone++
	}
}

// tidy removes samples that are gone.
func (w *Writer) tidy() {
	n := 0
	for n < len(w.changes) && w.changes[n].gone {
		n++
	}
	w.changes = w.changes[n:] // what is left does not move: it may be a long history, which loses one sample with each that is written
	if w.gone -= n; 2*w.gone > len(w.changes) {
		w.changes = slices.DeleteFunc(w.changes, func(c change) bool { return c.gone })
		w.gone = 0
	}
	w.first = w.next()
	if len(w.changes) > 0 {
		w.first = w.changes[0].seq
	}
}

// release forgets samples that no reliable reader lacks (RT3) and that are no part of a history. It
// returns how many it looked at: none twice, so that the length of the history does not count.
func (w *Writer) release() (looked int) {
	low := w.acked()
	for i := w.find(w.freed); i < len(w.changes) && w.changes[i].seq < low; i++ {
		if c := &w.changes[i]; !c.durable {
			w.drop(c)
		}
		looked++
	}
	w.freed = max(w.freed, low)
	w.tidy()
	if w.full && w.Room() {
		w.p.host.Room(w)
	}
	return looked
}

func (w *Writer) proxy(g wire.GUID) *remoteReader {
	for _, r := range w.proxies {
		if r.Endpoint.GUID == g {
			return r
		}
	}
	return nil
}

func (w *Writer) match(o *peer, e wire.Endpoint) {
	r := &remoteReader{of: o, out: w.p.outboxOf(o, &e), Endpoint: e, reliable: w.Endpoint.QoS.Reliability.Kind == qos.Reliable && e.QoS.Reliability.Kind == qos.Reliable, count: -1, frags: -1}
	r.start, r.live = w.next(), w.next()
	if w.Endpoint.QoS.Durability > qos.Volatile && e.QoS.Durability > qos.Volatile {
		r.start = w.first
	}
	r.acked, r.sent = r.start, r.start
	r.begun = !r.reliable
	if w.builtin() {
		all := w.p.discovery()
		r.offset = o.paths[o.at].offsets[slices.Index(all[:], w)]
	}
	w.proxies = append(w.proxies, r)
	if !w.builtin() {
		w.p.host.ReaderMatched(w, e)
	}
	if r.reliable {
		w.beat(r)
	}
	w.pump()
}

func (w *Writer) unmatch(r *remoteReader) {
	w.proxies = slices.DeleteFunc(w.proxies, func(o *remoteReader) bool { return o == r })
	if !w.builtin() {
		w.p.host.ReaderGone(w, r.Endpoint)
	}
	w.release()
}

func (w *Writer) unmatchPeer(o *peer) {
	for _, r := range slices.Clone(w.proxies) {
		if r.of == o {
			w.unmatch(r)
		}
	}
}

// pump sends what the windows of the readers admit: to a reader that is not reliable, everything.
func (w *Writer) pump() {
	unreliable := false
	for _, r := range w.proxies {
		if !r.begun {
			continue
		}
		was := r.sent
		for r.sent < w.next() && (!r.reliable || w.bytesFrom(r.acked)-w.bytesFrom(r.sent) < int64(w.p.cfg.WindowBytes)) {
			if r.sent = max(r.sent, w.first); r.sent >= w.next() { // the heartbeat tells
				break
			}
			if c := w.at(r.sent); c != nil && r.wants(c) {
				w.transmit(r, r.sent, c)
				r.sent++
			} else {
				r.sent = w.gap(r, r.sent)
			}
		}
		if r.reliable && r.sent > was && (r.beats == 0 || r.at == 0) {
			r.every = heartbeatEvery
			r.at = w.p.now // with the next tick, behind the samples that are written until then
			w.p.wake(r.at)
		}
		unreliable = unreliable || !r.reliable && r.sent > was
	}
	if unreliable { // the next samples wait for nobody, perhaps
		w.release()
	}
}

// wants reports whether a reader gets a sample.
func (r *remoteReader) wants(c *change) bool { return !c.gone && (c.durable || c.seq >= r.live) }

// gap tells a reader, if it is reliable, about samples that it will not get, from one on, and
// returns the first one behind them.
func (w *Writer) gap(r *remoteReader, seq int64) int64 {
	i, to := w.find(seq), w.next()
	for i < len(w.changes) && !r.wants(&w.changes[i]) {
		i++
	}
	if i < len(w.changes) {
		to = w.changes[i].seq
	}
	if r.reliable {
		w.p.begin(r.out, 64).Gap(r.Endpoint.GUID.Entity, w.Endpoint.GUID.Entity, seq+r.offset, to+r.offset)
	}
	return to
}

// transmit sends a sample to a reader, in fragments if it is large.
func (w *Writer) transmit(r *remoteReader, seq int64, c *change) {
	size := w.p.cfg.FragmentBytes
	if len(c.Payload) <= size {
		a := w.message(r, c, len(c.Payload))
		a.Data(r.Endpoint.GUID.Entity, w.Endpoint.GUID.Entity, seq+r.offset, c.Status, c.Payload)
		return
	}
	for n := 1; (n-1)*size < len(c.Payload); n++ {
		w.message(r, c, size).DataFrag(r.Endpoint.GUID.Entity, w.Endpoint.GUID.Entity, seq+r.offset, c.Status, c.Payload, n, size)
	}
}

// message returns a message with room for a payload, behind the source time of the sample.
func (w *Writer) message(r *remoteReader, c *change, n int) *wire.Appender {
	const timeBytes = 12
	o := r.out
	a := w.p.begin(o, n+wire.DataOverhead+timeBytes)
	if !o.timed || o.time != c.Source {
		a.InfoTime(c.Source)
		o.timed, o.time = true, c.Source
	}
	return a
}

// beat sends a heartbeat about what was sent to a reader; samples that wait for its window are not
// missing. The heartbeat of a reader that has not begun has no samples, because a volatile reader
// skips all samples of its first heartbeat. Until a reader that gets a history has acknowledged a
// sample, its heartbeats have all samples: from the first one it knows whether the writer has what
// came from it before.
func (w *Writer) beat(r *remoteReader) {
	w.count++
	h := wire.Heartbeat{Reader: r.Endpoint.GUID.Entity, Writer: w.Endpoint.GUID.Entity, First: max(r.start, w.first), Last: r.sent - 1, Count: w.count}
	switch lasting := w.Endpoint.QoS.Durability > qos.Volatile && r.Endpoint.QoS.Durability > qos.Volatile; {
	case lasting && (!r.begun || r.acked == r.start):
		h.First, h.Last = max(r.start, w.first), w.next()-1
	case !r.begun:
		h.First, h.Last = r.start, r.start-1
	}
	h.First = min(h.First, h.Last+1)
	h.First, h.Last = h.First+r.offset, h.Last+r.offset
	if r.asked == 0 {
		r.asked = w.p.now
	}
	w.p.begin(r.out, 64).Heartbeat(h)
	r.beats++
	if r.every = min(2*r.every, heartbeatMost); r.beats <= 1 || r.every == 0 {
		r.every = heartbeatEvery
	}
	r.at = w.p.now + int64(r.every)
	w.p.wake(r.at)
}

// tick sends the heartbeats that are due, and goes on without readers that owe an answer for too
// long.
func (w *Writer) tick() {
	for _, r := range slices.Clone(w.proxies) {
		switch {
		case r.reliable && r.asked > 0 && w.p.now-r.asked >= int64(w.p.cfg.Silent) && !w.builtin(): // RT4
			w.silent = append(w.silent, r)
			w.p.host.ReaderSilent(w, r.Endpoint)
			w.unmatch(r)
		case !r.reliable || r.begun && r.acked >= w.next() || r.at == 0:
		case r.at <= w.p.now:
			w.beat(r)
		default:
			w.p.wake(r.at)
		}
	}
}

// ask sends heartbeats to readers that were silent, which match again when they answer.
func (w *Writer) ask() {
	for _, r := range w.silent {
		r.begun, r.start = false, w.next()
		w.beat(r)
	}
}

// forget forgets readers that were silent.
func (w *Writer) forget(which func(*remoteReader) bool) {
	w.silent = slices.DeleteFunc(w.silent, which)
}

func (w *Writer) wasSilent(g wire.GUID) *remoteReader {
	for _, r := range w.silent {
		if r.Endpoint.GUID == g {
			return r
		}
	}
	return nil
}

// acknack takes a reader's answer.
func (w *Writer) acknack(from wire.GUID, a *wire.AckNack) {
	if r := w.wasSilent(from); r != nil {
		w.forget(func(o *remoteReader) bool { return o == r })
		w.match(r.of, r.Endpoint)
		return
	}
	r := w.proxy(from)
	if r != nil {
		r.asked = 0
	}
	// What a reader says before it has a heartbeat. It may have forgotten this participant meanwhile,
	// and counts anew.
	first := !a.Final && a.Missing.N == 0
	if r == nil || !r.reliable || !first && int64(a.Count) <= r.count && r.count-int64(a.Count) < 1<<16 {
		return
	}
	r.count = int64(a.Count)
	if w.builtin() && !w.p.verify(w, r, a.Missing.Base) {
		return
	}
	a.Missing.Base -= r.offset
	base := a.Missing.Base
	if !r.begun {
		if base < r.start || first && r.beats < 3 {
			w.beat(r)
			return
		}
		r.begun = true
	} else if first {
		w.beat(r)
	}
	if base > w.next() { // it cannot have what was not written
		base = w.next()
	}
	if base > r.acked {
		r.acked, r.beats, r.every = base, 0, heartbeatEvery
	}
	r.sent = max(r.sent, r.acked)
	w.again(r, base, a)
	w.release()
	w.pump()
	w.askNext(r, a.Missing.N > 0)
}

// askNext sets when a reader is asked again what it lacks: about what was sent again, soon.
func (w *Writer) askNext(r *remoteReader, again bool) {
	switch {
	case r.acked >= w.next():
		r.at = 0
	case again || r.at == 0:
		r.at = w.p.now
		if !again {
			r.at += int64(heartbeatEvery)
		}
		w.p.wake(r.at)
	}
}

// again sends the samples that a reader misses.
func (w *Writer) again(r *remoteReader, base int64, a *wire.AckNack) {
	room := w.p.cfg.WindowBytes // the reader asks again for samples beyond it: an answer of some bytes costs no more than a window
	for seq := max(base, 1); seq < base+int64(a.Missing.N) && seq < r.sent && room > 0; {
		if c := w.at(seq); !a.Missing.Has(seq) {
			seq++
		} else if c != nil && r.wants(c) {
			w.transmit(r, seq, c)
			room -= len(c.Payload)
			seq++
		} else {
			seq = w.gap(r, seq)
		}
	}
}

// nackFrag sends fragments again.
func (w *Writer) nackFrag(from wire.GUID, n *wire.NackFrag) {
	r := w.proxy(from)
	if r == nil {
		return
	}
	r.asked = 0
	seq := n.Sequence - r.offset
	c := w.at(seq)
	if c == nil || c.gone || int64(n.Count) <= r.frags && r.frags-int64(n.Count) < 1<<16 {
		return
	}
	r.frags = int64(n.Count)
	size := w.p.cfg.FragmentBytes
	for f := n.Missing.Base; f < n.Missing.Base+int64(n.Missing.N) && (f-1)*int64(size) < int64(len(c.Payload)); f++ {
		if n.Missing.Has(f) {
			w.message(r, c, size).DataFrag(r.Endpoint.GUID.Entity, w.Endpoint.GUID.Entity, seq+r.offset, c.Status, c.Payload, int(f), size)
		}
	}
	r.at = w.p.now + int64(heartbeatEvery)/4
	w.p.wake(r.at)
}

// Acknowledged reports whether all reliable readers have all that was written.
func (w *Writer) Acknowledged() bool { return w.acked() == w.next() }

// Readers is the number of readers that match.
func (w *Writer) Readers() int { return len(w.proxies) }
