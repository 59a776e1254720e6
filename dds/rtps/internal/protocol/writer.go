package protocol

import (
	"slices"
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

	// changes are the samples that are kept, from first on. One that is not needed any more and has others before it that are is gone.
	first   int64
	changes []change
	total   int64 // bytes of all samples so far
	kept    map[string][]int64
	count   uint32
	full    bool // the host was told that there is no room
}

type change struct {
	Change
	gone    bool
	durable bool  // it is part of the history
	end     int64 // bytes of all samples up to this one
}

// remoteReader is a writer's proxy of a reader that matches it.
type remoteReader struct {
	of       *peer
	Endpoint wire.Endpoint
	reliable bool
	begun    bool  // it knows where it begins
	start    int64 // the first sample that it gets
	acked    int64 // it has all below
	sent     int64 // … and was sent all below
	count    int64 // of its last answer, -1: none
	frags    int64
	beats    int           // heartbeats since its last answer
	every    time.Duration // until the next one
	at       int64         // when the next heartbeat is due
}

// unacknowledged is how many samples a writer keeps for readers that have not acknowledged them.
const unacknowledged = 4096

func (p *Participant) newWriter(e wire.Endpoint) *Writer {
	return &Writer{p: p, Endpoint: e, first: 1, kept: map[string][]int64{}}
}

func (w *Writer) next() int64 { return w.first + int64(len(w.changes)) }

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
	if i := seq - w.first - 1; i >= 0 && i < int64(len(w.changes)) {
		return w.total - w.changes[i].end
	}
	if seq >= w.next() || len(w.changes) == 0 {
		return 0
	}
	return w.total - w.changes[0].end + int64(len(w.changes[0].Payload))
}

// Write writes a sample. It is sent as far as the windows of the readers go, with the next Flush.
func (w *Writer) Write(c Change) {
	w.total += int64(len(c.Payload))
	n := change{Change: c, end: w.total, durable: w.Endpoint.QoS.Durability > qos.Volatile}
	seq := w.next()
	w.changes = append(w.changes, n)
	if n.durable {
		w.remember(c.Key, seq)
	}
	if len(w.proxies) == 0 {
		w.release()
		return
	}
	w.pump()
}

// remember keeps the history of an instance within the depth of the writer; of discovery, the last sample.
func (w *Writer) remember(key string, seq int64) {
	h := w.Endpoint.QoS.Service.History
	limit := w.Endpoint.QoS.Service.Limits.Samples
	depth := max(h.Depth, 1)
	if h.All {
		if depth = limit; depth == 0 {
			return
		}
		key = ""
	}
	seqs := append(w.kept[key], seq)
	for len(seqs) > depth {
		if at := w.at(seqs[0]); at != nil {
			at.durable = false
		}
		seqs = seqs[1:]
	}
	w.kept[key] = seqs
}

func (w *Writer) at(seq int64) *change {
	if i := seq - w.first; i >= 0 && i < int64(len(w.changes)) {
		return &w.changes[i]
	}
	return nil
}

// release forgets samples that no reliable reader lacks (RT3) and that are no part of a history.
func (w *Writer) release() {
	low := w.acked()
	for _, r := range w.proxies {
		if !r.reliable {
			low = min(low, r.sent)
		}
	}
	n := 0
	for i := range w.changes {
		c := &w.changes[i]
		if w.first+int64(i) >= low {
			break
		}
		if !c.durable && !c.gone {
			c.gone, c.Payload = true, nil
		}
	}
	for n < len(w.changes) && w.changes[n].gone {
		n++
	}
	if n > 0 {
		w.first += int64(n)
		w.changes = slices.Delete(w.changes, 0, n)
	}
	if w.full && w.Room() {
		w.p.host.Room(w)
	}
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
	r := &remoteReader{of: o, Endpoint: e, reliable: w.Endpoint.QoS.Reliability.Kind == qos.Reliable && e.QoS.Reliability.Kind == qos.Reliable, count: -1, frags: -1}
	r.start = w.next()
	if w.Endpoint.QoS.Durability > qos.Volatile && e.QoS.Durability > qos.Volatile {
		r.start = w.first
	}
	r.acked, r.sent = r.start, r.start
	r.begun = !r.reliable
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

func (w *Writer) outbox(r *remoteReader) *outbox {
	if w.builtin() {
		return &r.of.meta
	}
	return &r.of.data
}

// pump sends what the windows of the readers admit.
func (w *Writer) pump() {
	for _, r := range w.proxies {
		if !r.begun {
			continue
		}
		was := r.sent
		for r.sent < w.next() && (!r.reliable || w.bytesFrom(r.acked)-w.bytesFrom(r.sent) < int64(w.p.cfg.WindowBytes)) {
			r.sent = max(r.sent, w.first)
			if c := w.at(r.sent); c != nil && !c.gone {
				w.transmit(r, r.sent, c)
			} else if r.reliable {
				w.gap(r, r.sent)
			}
			r.sent++
		}
		if r.reliable && r.sent > was && (r.beats == 0 || r.at == 0) {
			r.every = heartbeatEvery
			r.at = w.p.now // with the next tick, behind what is written until then
			w.p.wake(r.at)
		}
		if !r.reliable && r.sent > was {
			w.release()
		}
	}
}

// gap tells a reader about samples that it will not get, from one on.
func (w *Writer) gap(r *remoteReader, seq int64) {
	to := seq + 1
	for c := w.at(to); c != nil && c.gone; c = w.at(to) {
		to++
	}
	w.p.begin(w.outbox(r), 64).Gap(r.Endpoint.GUID.Entity, w.Endpoint.GUID.Entity, seq, to)
}

// transmit sends a sample to a reader, in fragments if it is large.
func (w *Writer) transmit(r *remoteReader, seq int64, c *change) {
	size := w.p.cfg.FragmentBytes
	if len(c.Payload) <= size {
		a := w.message(r, c, len(c.Payload))
		a.Data(r.Endpoint.GUID.Entity, w.Endpoint.GUID.Entity, seq, c.Status, c.Payload)
		return
	}
	for n := 1; (n-1)*size < len(c.Payload); n++ {
		w.message(r, c, size).DataFrag(r.Endpoint.GUID.Entity, w.Endpoint.GUID.Entity, seq, c.Status, c.Payload, n, size)
	}
}

// message returns a message with room for a payload, behind the source time of the sample.
func (w *Writer) message(r *remoteReader, c *change, n int) *wire.Appender {
	const timeBytes = 12
	o := w.outbox(r)
	a := w.p.begin(o, n+wire.DataOverhead+timeBytes)
	if !o.timed || o.time != c.Source {
		a.InfoTime(c.Source)
		o.timed, o.time = true, c.Source
	}
	return a
}

// beat sends a heartbeat about what was sent to a reader: what waits for its window is not missing. A reader that has not begun is told that there is nothing yet that it could miss: the first
// heartbeat of all moves a volatile reader behind its last sample.
func (w *Writer) beat(r *remoteReader) {
	w.count++
	h := wire.Heartbeat{Reader: r.Endpoint.GUID.Entity, Writer: w.Endpoint.GUID.Entity, First: max(r.start, w.first), Last: r.sent - 1, Count: w.count}
	if !r.begun {
		h.First, h.Last = r.start, r.start-1
		if w.Endpoint.QoS.Durability > qos.Volatile && r.Endpoint.QoS.Durability > qos.Volatile {
			h.First, h.Last = max(r.start, w.first), w.next()-1
		}
	}
	h.First = min(h.First, h.Last+1)
	w.p.begin(w.outbox(r), 64).Heartbeat(h)
	r.beats++
	if r.every = min(2*r.every, heartbeatMost); r.beats <= 1 || r.every == 0 {
		r.every = heartbeatEvery
	}
	r.at = w.p.now + int64(r.every)
	w.p.wake(r.at)
}

// tick sends the heartbeats that are due.
func (w *Writer) tick() {
	for _, r := range w.proxies {
		switch {
		case !r.reliable || r.begun && r.acked >= w.next() || r.at == 0:
		case r.at <= w.p.now:
			w.beat(r)
		default:
			w.p.wake(r.at)
		}
	}
}

// acknack takes a reader's answer.
func (w *Writer) acknack(from wire.GUID, a *wire.AckNack) {
	r := w.proxy(from)
	// What a reader says before it has a heartbeat. It may have forgotten this participant meanwhile, and counts anew.
	first := !a.Final && a.Missing.N == 0
	if r == nil || !r.reliable || !first && int64(a.Count) <= r.count && r.count-int64(a.Count) < 1<<16 {
		return
	}
	r.count = int64(a.Count)
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
	for seq := base; seq < base+int64(a.Missing.N) && seq < r.sent; seq++ {
		if !a.Missing.Has(seq) {
			continue
		}
		if c := w.at(seq); c != nil && !c.gone {
			w.transmit(r, seq, c)
		} else {
			w.gap(r, seq)
		}
	}
	w.release()
	w.pump()
	switch {
	case r.acked >= w.next():
		r.at = 0
	case a.Missing.N > 0 || r.at == 0: // what was sent again is asked about soon
		r.at = w.p.now
		if a.Missing.N == 0 {
			r.at += int64(heartbeatEvery)
		}
		w.p.wake(r.at)
	}
}

// nackFrag sends fragments again.
func (w *Writer) nackFrag(from wire.GUID, n *wire.NackFrag) {
	r := w.proxy(from)
	c := w.at(n.Sequence)
	if r == nil || c == nil || c.gone || int64(n.Count) <= r.frags && r.frags-int64(n.Count) < 1<<16 {
		return
	}
	r.frags = int64(n.Count)
	size := w.p.cfg.FragmentBytes
	for f := n.Missing.Base; f < n.Missing.Base+int64(n.Missing.N) && (f-1)*int64(size) < int64(len(c.Payload)); f++ {
		if n.Missing.Has(f) {
			w.message(r, c, size).DataFrag(r.Endpoint.GUID.Entity, w.Endpoint.GUID.Entity, n.Sequence, c.Status, c.Payload, int(f), size)
		}
	}
	r.at = w.p.now + int64(heartbeatEvery)/4
	w.p.wake(r.at)
}

// Acknowledged reports whether all reliable readers have all that was written.
func (w *Writer) Acknowledged() bool { return w.acked() == w.next() }

// Readers is the number of readers that match.
func (w *Writer) Readers() int { return len(w.proxies) }
