package protocol

import (
	"slices"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// Reader is a reader of this participant.
type Reader struct {
	p         *Participant
	Endpoint  wire.Endpoint
	writers   []*RemoteWriter
	automatic bool // of discovery: samples are acknowledged as they come
}

// RemoteWriter is a reader's proxy of a writer that matches it.
type RemoteWriter struct {
	Endpoint wire.Endpoint
	reader   *Reader
	of       *peer
	out      *outbox // where its answers go
	reliable bool
	ended    bool // it has said that it ends

	begun     bool  // it is known where the samples begin
	next      int64 // the lowest sample that the host was not given
	acked     int64 // the host has acknowledged all below
	told      int64 // the writer was told so of all below
	delivered int64 // the last sample that the host was given
	last      int64 // that the writer has, as it said
	untold    int   // bytes that came since it was told
	answered  int64 // when it was told

	held      map[int64]held
	heldBytes int
	partial   map[int64]*partial
	order     []int64 // of the partial ones, as they came

	partialBytes int // sizes of the partial ones

	beat      int64 // number of the last heartbeat; -1: none
	has       int64 // number of the last sample of the writer that the host had before it matched
	doubted   int64 // when a heartbeat first said that the writer has fewer samples than came from it; 0: the last one did not say so
	doubt     int64 // number of the last heartbeat that said so
	answers   uint32
	fragments uint32
	owed      bool  // an answer
	since     int64 // when it became owed
	nackAt    int64 // when samples may be asked for again
}

// held is a sample that came before its turn, or the word of the writer that there is none.
type held struct {
	Sample
	none bool
}

// partial is a sample of which fragments have come.
type partial struct {
	Sample
	size, fragment int // bytes of the sample and of a fragment
	cost           int // bytes that it may take
	have           []bool
	missing        int
}

func (r *Reader) proxy(g wire.GUID) *RemoteWriter {
	for _, rw := range r.writers {
		if rw.Endpoint.GUID == g {
			return rw
		}
	}
	return nil
}

func (r *Reader) match(o *peer, e wire.Endpoint) {
	rw := &RemoteWriter{
		Endpoint: e, reader: r, of: o, out: r.p.outboxOf(o, &e), reliable: r.Endpoint.QoS.Reliability.Kind == qos.Reliable && e.QoS.Reliability.Kind == qos.Reliable,
		next: 1, acked: 1, told: 1, held: map[int64]held{}, partial: map[int64]*partial{}, beat: -1,
	}
	r.writers = append(r.writers, rw)
	r.p.proxies[e.GUID] = append(r.p.proxies[e.GUID], rw)
	if !r.automatic {
		r.p.host.WriterMatched(r, rw)
	}
	if rw.reliable && o.proved { // what a reader says first: it has nothing, and asks for a heartbeat
		rw.ask()
	}
}

// ask asks for a heartbeat, and acknowledges nothing.
func (rw *RemoteWriter) ask() {
	rw.answers++
	k := wire.AckNack{Reader: rw.reader.Endpoint.GUID.Entity, Writer: rw.Endpoint.GUID.Entity, Missing: wire.Numbers{Base: 1}, Count: rw.answers}
	rw.reader.p.begin(rw.out, 128).AckNack(k)
	rw.nackAt = rw.reader.p.now + int64(firstEvery)
	rw.reader.p.wake(rw.nackAt)
}

// Ended reports whether the writer, or its participant, has said that it ends.
func (rw *RemoteWriter) Ended() bool { return rw.ended }

// end notes that writers have said that they end.
func (p *Participant) end(all []wire.Endpoint) {
	for _, e := range all {
		for _, rw := range p.proxies[e.GUID] {
			rw.ended = true
		}
	}
}

func (r *Reader) unmatch(rw *RemoteWriter) {
	same := func(o *RemoteWriter) bool { return o == rw }
	r.writers = slices.DeleteFunc(r.writers, same)
	rw.drop()
	g := rw.Endpoint.GUID
	if left := slices.DeleteFunc(r.p.proxies[g], same); len(left) > 0 {
		r.p.proxies[g] = left
	} else {
		delete(r.p.proxies, g)
	}
	if !r.automatic {
		r.p.host.WriterGone(r, rw)
	}
}

func (r *Reader) unmatchPeer(o *peer) {
	for _, rw := range slices.Clone(r.writers) {
		if rw.of == o {
			r.unmatch(rw)
		}
	}
}

// Reliable reports whether the writer sends again what was lost.
func (rw *RemoteWriter) Reliable() bool { return rw.reliable }

// Has tells the number of the last sample of a writer that the host had before the writer matched,
// 0 for none: heartbeats of a writer that has not started again name it.
func (rw *RemoteWriter) Has(last int64) { rw.has = last }

// sample takes a whole sample.
func (rw *RemoteWriter) sample(s Sample) {
	switch {
	case s.Sequence < rw.next:
	case !rw.reliable:
		rw.next = s.Sequence + 1
		rw.withoutPassed()
		rw.give(s)
	case rw.begun && rw.doubted == 0 && s.Sequence == rw.next:
		if rw.give(s) {
			rw.pass()
			rw.drain()
		}
	default:
		rw.hold(held{Sample: s})
	}
}

// hold keeps a sample until its turn, if there is room. If not, it is asked for again.
func (rw *RemoteWriter) hold(h held) {
	if _, ok := rw.held[h.Sequence]; ok || h.Sequence-rw.next > maxAhead || len(rw.held) >= maxHeld || rw.heldBytes+len(h.Payload) > heldBytes ||
		rw.reader.p.kept+len(h.Payload) > maxKept { // RT4
		return
	}
	rw.held[h.Sequence] = h
	rw.heldBytes += len(h.Payload)
	rw.reader.p.kept += len(h.Payload)
}

// pass goes on behind the next sample, of which nothing is kept then: it may have come again while
// the host had no room.
func (rw *RemoteWriter) pass() {
	if h, ok := rw.held[rw.next]; ok {
		delete(rw.held, rw.next)
		rw.heldBytes -= len(h.Payload)
		rw.reader.p.kept -= len(h.Payload)
	}
	rw.withoutPartial(rw.next)
	rw.next++
}

// drop forgets held samples and received fragments. A reliable writer is asked for them again.
func (rw *RemoteWriter) drop() {
	rw.reader.p.kept -= rw.heldBytes + rw.partialBytes
	rw.heldBytes, rw.partialBytes, rw.order = 0, 0, nil
	clear(rw.held)
	clear(rw.partial)
}

// spill makes room: it drops the held samples and fragments of the writer that has most of them.
func (p *Participant) spill() {
	var most *RemoteWriter
	for _, r := range append([]*Reader{p.publicationsOf, p.subscriptionsOf, p.livelinessOf}, p.readers...) {
		for _, rw := range r.writers {
			if most == nil || rw.heldBytes+rw.partialBytes > most.heldBytes+most.partialBytes {
				most = rw
			}
		}
	}
	most.drop()
}

// drain gives the host what was held and has its turn.
func (rw *RemoteWriter) drain() {
	for len(rw.held) > 0 {
		h, ok := rw.held[rw.next]
		if !ok || !h.none && !rw.give(h.Sample) {
			break
		}
		rw.pass()
	}
	rw.settle()
}

// settle acknowledges what the host is never given.
func (rw *RemoteWriter) settle() {
	if rw.reader.automatic || rw.delivered < rw.acked {
		rw.acked = rw.next
	}
}

// give gives the host a sample whose turn it is (RT1), and reports whether the host took it.
func (rw *RemoteWriter) give(s Sample) bool {
	rw.withoutPartial(s.Sequence)
	if rw.reader.automatic {
		rw.delivered = s.Sequence
		rw.reader.p.discovered(rw.reader, rw.of, &s)
		return true
	}
	if !rw.reader.p.host.Sample(rw.reader, rw, s) {
		return false
	}
	rw.delivered = s.Sequence
	rw.untold += len(s.Payload)
	return true
}

// Acknowledge says that the host is done with all samples of a writer up to a number.
func (rw *RemoteWriter) Acknowledge(now int64, upTo int64) {
	rw.reader.p.now = now
	rw.acked = max(rw.acked, min(upTo+1, rw.next))
	rw.settle()
	switch {
	case !rw.reliable || rw.acked <= rw.told || rw.doubted > 0:
	case rw.owed || rw.acked-rw.told >= maxUntold || rw.untold >= maxUntoldBytes || rw.drained():
		rw.answer(true)
	case rw.acked == rw.next:
		rw.reader.p.wake(rw.answered + int64(drainedEvery))
	}
}

// drained reports that all which came is acknowledged by the host, and the writer was not told. It
// may be held up, and then it sends nothing more until it knows; and it is not told for each sample
// of a slow stream.
func (rw *RemoteWriter) drained() bool {
	return rw.acked == rw.next && rw.acked > rw.told && rw.reader.p.now >= rw.answered+int64(drainedEvery)
}

// maxUntold is how many samples, and bytes of samples, are acknowledged by the host before the
// writer is told without having asked.
const (
	maxUntold      = 32
	maxUntoldBytes = 64 << 10
)

// restartAfter is how long heartbeats say that a writer has fewer samples than came from it until
// it counts as one that has started again with its GUID, and with numbers from 1. The writer that
// is known would have answered meanwhile.
const restartAfter = time.Second

// lacks reports whether a heartbeat is not of the writer that is known, but of one with its GUID
// that has started again, or late: it names fewer samples than came from the writer, or comes after
// such a one and has a smaller number than those of the writer that is known. The second result is
// true when such heartbeats, each with a larger number than the one before, have come for the time
// restartAfter, and no other one. Until then nothing is acknowledged, because the writer would take
// the numbers of earlier samples for those of its own, and samples wait.
func (rw *RemoteWriter) lacks(h *wire.Heartbeat) (lacks, restarted bool) {
	last := rw.delivered
	if !rw.begun {
		last = max(last, rw.has)
	}
	if !rw.of.proved || h.Last >= last && (rw.doubted == 0 || int64(h.Count) >= rw.beat) {
		return false, false
	}
	if p := rw.reader.p; rw.doubted == 0 {
		rw.doubted, rw.doubt = p.now, int64(h.Count)
		rw.ask()
	} else if int64(h.Count) > rw.doubt {
		rw.doubt = int64(h.Count)
		restarted = p.now-rw.doubted >= int64(restartAfter)
	}
	return true, restarted
}

// startAgain has a writer that has started again end, and match anew.
func (rw *RemoteWriter) startAgain() {
	rw.ended = true
	rw.reader.unmatch(rw)
	rw.reader.match(rw.of, rw.Endpoint)
}

// heartbeat takes what a writer has, and reports whether the writer has started again.
func (rw *RemoteWriter) heartbeat(h *wire.Heartbeat) (restarted bool) {
	if !rw.reliable {
		return false
	}
	if lacks, restarted := rw.lacks(h); lacks {
		return restarted
	}
	if int64(h.Count) <= rw.beat && rw.beat-int64(h.Count) < 1<<16 {
		return false
	}
	rw.beat, rw.doubted = int64(h.Count), 0
	if !rw.of.proved { // its samples are not taken yet
		rw.answerOnly(h)
		return false
	}
	if !rw.begun {
		rw.begun, rw.nackAt = true, 0
	}
	rw.last = h.Last
	if h.First > rw.next { // what it does not have any more never comes
		rw.skip(rw.next, h.First)
	}
	rw.drain()
	p := rw.reader.p
	switch missing := rw.last >= rw.next; {
	case missing && p.now >= rw.nackAt:
		rw.answer(true)
	case missing: // it was asked for a moment ago
		rw.owe()
	case rw.acked > rw.last:
		if !h.Final || rw.told < rw.acked { // a writer that is held up sends nothing more until it knows
			rw.answer(true)
		}
	default:
		rw.owe()
	}
	return false
}

// answerOnly answers a heartbeat of a writer of discovery, so that this participant proves its
// address to it, and asks for nothing.
func (rw *RemoteWriter) answerOnly(h *wire.Heartbeat) {
	rw.answers++
	k := wire.AckNack{Reader: rw.reader.Endpoint.GUID.Entity, Writer: rw.Endpoint.GUID.Entity, Missing: wire.Numbers{Base: h.First}, Count: rw.answers, Final: true}
	rw.reader.p.begin(rw.out, 128).AckNack(k)
}

func (rw *RemoteWriter) owe() {
	if !rw.owed {
		rw.owed, rw.since = true, rw.reader.p.now
		rw.reader.p.wake(rw.since + int64(answerWithin))
	}
	if rw.last >= rw.next {
		rw.reader.p.wake(rw.nackAt)
	}
}

// skip passes samples which the writer does not have: those from one on and below another one.
func (rw *RemoteWriter) skip(from, to int64) {
	if from > rw.next {
		for seq := from; seq < to && seq < from+maxHeld; seq++ {
			rw.hold(held{Sample: Sample{Sequence: seq}, none: true})
		}
		return
	}
	for rw.next < to {
		if len(rw.held) == 0 {
			rw.next = to
			break
		}
		h, ok := rw.held[rw.next]
		if ok && !h.none && !rw.give(h.Sample) {
			break
		}
		rw.pass()
	}
	rw.withoutPassed()
	rw.drain()
}

// gap takes the word of a writer that it will not send some samples.
func (rw *RemoteWriter) gap(g *wire.Gap) {
	if !rw.reliable || !rw.begun || rw.doubted > 0 {
		return
	}
	if g.Numbers.Base > rw.next {
		rw.skip(g.Start, g.Numbers.Base)
	}
	for seq := g.Numbers.Base; seq < g.Numbers.Base+int64(g.Numbers.N); seq++ {
		if g.Numbers.Has(seq) && seq >= rw.next {
			rw.hold(held{Sample: Sample{Sequence: seq}, none: true})
		}
	}
	rw.drain()
}

// answer tells the writer which samples have come, and which are missing. Final says that no
// heartbeat is asked for.
func (rw *RemoteWriter) answer(final bool) {
	p := rw.reader.p
	o := rw.out
	rw.answers++
	k := wire.AckNack{Reader: rw.reader.Endpoint.GUID.Entity, Writer: rw.Endpoint.GUID.Entity, Missing: wire.Numbers{Base: rw.acked}, Count: rw.answers, Final: final}
	for seq := rw.next; seq <= rw.last && seq < rw.acked+256; seq++ {
		if _, ok := rw.held[seq]; ok {
			continue
		}
		if part := rw.partial[seq]; part != nil {
			rw.askFragments(o, seq, part)
			continue
		}
		k.Missing.Add(seq)
	}
	p.begin(o, 128).AckNack(k)
	rw.told, rw.owed, rw.untold, rw.answered = rw.acked, rw.acked <= rw.last, 0, p.now // RT2
	if rw.last >= rw.next {
		rw.nackAt = p.now + int64(nackEvery)
		p.wake(rw.nackAt)
	}
	if rw.owed {
		rw.since = p.now
		p.wake(rw.since + int64(answerWithin))
	}
}

// askFragments asks for the fragments of a sample that have not come.
func (rw *RemoteWriter) askFragments(o *outbox, seq int64, part *partial) {
	n := wire.NackFrag{Reader: rw.reader.Endpoint.GUID.Entity, Writer: rw.Endpoint.GUID.Entity, Sequence: seq}
	for i, have := range part.have {
		if have {
			continue
		}
		if n.Missing.Base == 0 {
			n.Missing.Base = int64(i + 1)
		}
		if !n.Missing.Add(int64(i + 1)) {
			break
		}
	}
	rw.fragments++
	n.Count = rw.fragments
	rw.reader.p.begin(o, 128).NackFrag(n)
}

// newPartial has a sample of fragments begin, if there is room for it.
func (rw *RemoteWriter) newPartial(d *wire.Data, s Sample) *partial {
	p := rw.reader.p
	n := (d.SampleBytes + d.FragmentBytes - 1) / d.FragmentBytes
	if n > maxFragments {
		return nil
	}
	cost := d.SampleBytes + n
	room := func() bool { return len(rw.partial) < maxPartial && rw.partialBytes+d.SampleBytes <= p.cfg.SampleBytes }
	for !rw.reliable && !room() && len(rw.order) > 0 { // the missing fragments of the oldest sample do not come any more
		rw.withoutPartial(rw.order[0])
	}
	if d.Sequence > rw.next && (!room() || p.kept+cost > maxKept && rw.reliable) { // RT4; the next one always has room
		return nil
	}
	for p.kept > 0 && p.kept+cost > maxKept {
		p.spill()
	}
	rw.partialBytes += cost
	p.kept += cost
	part := &partial{Sample: s, size: d.SampleBytes, fragment: d.FragmentBytes, cost: cost, have: make([]bool, n), missing: n}
	part.Payload = make([]byte, 0, min(d.SampleBytes, 1<<20)) // more as it comes: a number in a message costs its sender nothing
	rw.partial[d.Sequence], rw.order = part, append(rw.order, d.Sequence)
	return part
}

// fragment takes some fragments of a sample.
func (rw *RemoteWriter) fragment(d *wire.Data, s Sample) {
	if d.Reader != wire.Unknown && d.Reader != rw.reader.Endpoint.GUID.Entity || d.Sequence < rw.next || d.SampleBytes > rw.reader.p.cfg.SampleBytes {
		return
	}
	if _, ok := rw.held[d.Sequence]; ok {
		return
	}
	part := rw.partial[d.Sequence]
	if part == nil {
		part = rw.newPartial(d, s)
	}
	if part == nil || part.size != d.SampleBytes || part.fragment != d.FragmentBytes {
		return
	}
	first := int(d.Fragment) - 1
	at := first * part.fragment
	if need := at + len(d.Payload); need > len(part.Payload) {
		if need > cap(part.Payload) {
			part.Payload = slices.Grow(part.Payload, max(need, min(2*cap(part.Payload), part.size))-len(part.Payload))
		}
		part.Payload = part.Payload[:need]
	}
	copy(part.Payload[at:], d.Payload)
	for i := first; i < min(first+d.Fragments, len(part.have)); i++ {
		if !part.have[i] {
			part.have[i] = true
			part.missing--
		}
	}
	if part.missing == 0 {
		whole := part.Sample
		whole.Payload = part.Payload
		rw.withoutPartial(d.Sequence)
		rw.sample(whole)
	}
}

func (rw *RemoteWriter) withoutPartial(seq int64) {
	part := rw.partial[seq]
	if part == nil {
		return
	}
	rw.partialBytes -= part.cost
	rw.reader.p.kept -= part.cost
	delete(rw.partial, seq)
	rw.order = slices.DeleteFunc(rw.order, func(o int64) bool { return o == seq })
}

// withoutPassed forgets fragments of samples that were passed.
func (rw *RemoteWriter) withoutPassed() {
	for _, seq := range slices.Clone(rw.order) {
		if seq < rw.next {
			rw.withoutPartial(seq)
		}
	}
}

// tick asks again for missing samples and fragments, and sends answers that are due.
func (r *Reader) tick() {
	for _, rw := range r.writers {
		if !rw.reliable || !rw.of.proved { // nothing is asked of a peer that has proved nothing (RT5)
			continue
		}
		now := r.p.now
		if !rw.begun || rw.doubted > 0 {
			if rw.nackAt <= now {
				rw.ask()
			}
			r.p.wake(rw.nackAt)
			continue
		}
		switch missing := rw.last >= rw.next; {
		case missing && rw.nackAt <= now, rw.owed && rw.since+int64(answerWithin) <= now, rw.drained():
			rw.answer(true)
		case missing:
			r.p.wake(rw.nackAt)
			fallthrough
		default:
			if rw.owed {
				r.p.wake(rw.since + int64(answerWithin))
			}
			if rw.acked == rw.next && rw.acked > rw.told {
				r.p.wake(rw.answered + int64(drainedEvery))
			}
		}
	}
}
