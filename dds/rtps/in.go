package rtps

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/protocol"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// inbound is a DDS writer, with its samples that are not known to be in the order.
type inbound struct {
	topic   *topic
	of      *protocol.RemoteWriter
	origin  dds.Origin
	waiting []arrival
	bytes   int
	carried int  // of those waiting, the first ones were sent to the order by this gateway
	queued  bool // it is one of the arrivals, or rests
	resting bool // the space has refused its samples, which are sent again later
	gone    bool // the writer does not match any more
	sent    bool // some of its samples were sent to the order here
	refused int  // attempts since it is gone

	ended bool      // the writer is gone and has said that it ends: its origin ends, too
	over  bool      // the writer is gone, and the space has the end of its origin: all of its samples that are in the order came before
	left  time.Time // when it was gone
	since uint64    // position of the space at which the writer matched, or at which the one before it with its GUID had ended
	last  uint64    // number of the last sample that was in the space then

	duplicates uint64 // samples up to last

	malformed uint64 // samples

	writer *dds.Writer[dds.Encoded] // of the goroutine that carries
}

// arrival is a sample of a DDS writer.
type arrival struct {
	dds.Carried
	dds.Encoded
	refused bool // it is not carried, and is acknowledged when all before it are
}

func (a *arrival) bytes() int { return len(a.Key) + len(a.Data) }

// Bounds of what one DDS writer has in flight to the order, and of what all of them have. One
// sample of a writer fits in any case.
const (
	waitingSamples = 1 << 15
	manySamples    = 1 << 10 // memory for more is given back when there are none
	waitingBytes   = 16 << 20
	allSamples     = 1 << 18
	allBytes       = 256 << 20
)

// held is what DDS writers have on their way into the order.
type held struct{ samples, bytes int }

// fits reports whether one more sample of a writer has room. The lock is held.
func (g *Gateway) fits(b *inbound, bytes int) bool {
	switch {
	case len(b.waiting) == 0:
		return true
	case len(b.waiting) >= waitingSamples || b.bytes+bytes > waitingBytes:
		return false
	}
	return g.intake.held.samples < allSamples && g.intake.held.bytes+bytes <= allBytes
}

// add appends a sample to the samples of a writer that wait. The lock is held.
func (g *Gateway) add(b *inbound, a arrival) {
	b.waiting = append(b.waiting, a)
	b.bytes += a.bytes()
	g.intake.held.samples++
	g.intake.held.bytes += a.bytes()
}

// remove removes the first samples of a writer. The lock is held.
func (g *Gateway) remove(b *inbound, n int) {
	for i := range n {
		b.bytes -= b.waiting[i].bytes()
		g.intake.held.bytes -= b.waiting[i].bytes()
	}
	g.intake.held.samples -= n
	b.waiting = slices.Delete(b.waiting, 0, n)
	if len(b.waiting) == 0 && cap(b.waiting) > manySamples {
		b.waiting = nil
	}
	b.carried = max(b.carried-n, 0)
}

func (h *host) WriterMatched(r *protocol.Reader, w *protocol.RemoteWriter) {
	g := (*Gateway)(h)
	for _, t := range g.topics {
		if t.reader == r {
			b := &inbound{topic: t, of: w, origin: g.originOf(&w.Endpoint)}
			g.intake.inbounds[w] = b
			if !g.follows(b) {
				g.begins(b)
			}
			h.log.Info("a DDS writer matches", "topic", t.Name, "writer", w.Endpoint.GUID, "reliable", w.Reliable())
		}
	}
}

func (h *host) WriterGone(_ *protocol.Reader, w *protocol.RemoteWriter) {
	g := (*Gateway)(h)
	b := g.intake.inbounds[w]
	if b == nil {
		return
	}
	h.log.Info("a DDS writer is gone", "topic", b.topic.Name, "writer", w.Endpoint.GUID)
	b.gone, b.ended, b.left = true, w.Ended(), time.Now()
	delete(g.intake.inbounds, w)
	g.intake.leaving[w.Endpoint.GUID] = append(g.intake.leaving[w.Endpoint.GUID], b)
	if b.ended {
		time.AfterFunc(endWithin, g.notify)
	}
	if len(b.waiting) == 0 && !b.sent && !b.ended { // there is nothing to carry and to close
		g.left(b)
		g.intake.arrivals = slices.DeleteFunc(g.intake.arrivals, func(o *inbound) bool { return o == b })
		b.resting = false
		return
	}
	if !b.queued { // the waiting samples are carried, and then the writer in the space is closed
		b.queued = true
		g.intake.arrivals = append(g.intake.arrivals, b)
	}
	g.notify()
}

func (h *host) Sample(_ *protocol.Reader, from *protocol.RemoteWriter, s protocol.Sample) bool {
	g := (*Gateway)(h)
	b := g.intake.inbounds[from]
	if b == nil {
		return true
	}
	if !g.fits(b, len(s.Payload)) {
		return false
	}
	a, err := b.topic.arrival(&s)
	if err != nil {
		g.stats.Malformed++
		if b.malformed++; b.malformed&(b.malformed-1) == 0 { // the 1st, 2nd, 4th, …
			g.log.Warn("a sample of a DDS writer was refused", "topic", b.topic.Name, "writer", from.Endpoint.GUID, "number", s.Sequence, "refused", b.malformed, "error", err)
		}
		a = arrival{Carried: dds.Carried{Sequence: uint64(s.Sequence)}, refused: true} // asking for it again would not mend it
	} else {
		g.stats.Received++
	}
	if a.Sequence <= b.last {
		g.duplicate(b)
	}
	g.add(b, a)
	if !b.queued {
		b.queued = true
		g.intake.arrivals = append(g.intake.arrivals, b)
	}
	g.notify()
	return true
}

// errKeyAlone is the error of a sample that has a key, and no value and no status.
var errKeyAlone = errors.New("rtps: a key without a value and without a status")

// arrival translates a sample of DDS.
func (t *topic) arrival(s *protocol.Sample) (a arrival, err error) {
	a.Sequence, a.Source = uint64(s.Sequence), s.Source
	if a.Source == 0 {
		a.Source = time.Now().UnixNano()
	}
	switch {
	case s.Status == 0 && s.IsKey: // a registration of an instance, which changes nothing
		return a, errKeyAlone
	case s.Status&wire.Disposed != 0:
		a.Operation = dds.OperationDispose
	case s.Status != 0:
		a.Operation = dds.OperationUnregister
	}
	switch {
	case s.Status != 0 && len(s.Payload) == 0 && s.Hash != nil && t.Type.payloads.Keyed(): // as Fast DDS has it
		a.Key, err = t.Type.payloads.AppendInstanceOfHash(nil, *s.Hash)
		return a, err
	case s.IsKey:
		a.Key, err = t.Type.payloads.AppendInstanceOfKey(nil, s.Payload)
		return a, err
	}
	a.Key, err = t.Type.payloads.AppendInstance(nil, s.Payload)
	if a.Operation == dds.OperationWrite {
		a.Data = s.Payload
	}
	return a, err
}

// send sends a batch, and if the writer is gone its end, unless the order has that already.
func (g *Gateway) send(b *inbound, batch []arrival, gone bool) (err error) {
	var last uint64
	over := false
	if gone {
		last, over = g.ordered(b)
	}
	if !over {
		err = b.send(g.ending, batch)
	}
	if gone && err == nil {
		err = b.end(g.ending, b.ended && !over && (last > 0 || b.writer != nil))
	}
	return err
}

// sent notes that a batch is in the order; gone: and the end of its writer.
func (g *Gateway) sent(b *inbound, batch []arrival, gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gone {
		g.remove(b, len(b.waiting))
		g.left(b)
	}
	for i := range batch {
		if !batch[i].refused {
			g.stats.Carried++
		}
	}
	if len(batch) > 0 && batch[len(batch)-1].refused { // the order may have all before it already, and then tells nothing more
		g.acknowledge(b, 0)
		g.settle()
	}
}

// carry sends arrivals to the order while this gateway is appointed.
func (g *Gateway) carry() {
	var batch []arrival
	late := progress{g: g, log: g.diskLog()}
	for {
		g.mu.Lock()
		var b *inbound
		if b = g.next(); b != nil {
			batch = append(batch[:0], b.waiting[b.carried:]...)
			b.carried = len(b.waiting)
			b.sent = b.sent || len(batch) > 0
		}
		gone := b != nil && b.gone
		g.mu.Unlock()
		if b == nil {
			select {
			case <-g.ending.Done():
				return
			case <-g.intake.work:
			}
			_, _ = g.look(&late) // another gateway may have carried before this one has received
			continue
		}
		err := g.send(b, batch, gone)
		if g.ending.Err() != nil {
			return
		}
		if err == nil {
			g.sent(b, batch, gone)
			continue
		}
		g.mu.Lock()
		g.rest(b)
		g.mu.Unlock()
		g.log.Error("carrying samples into the space", "topic", b.topic.Name, "writer", b.of.Endpoint.GUID, "error", err)
	}
}

// next takes the first of the arrivals that may be carried, if this gateway is appointed. A DDS
// writer that matches again waits until what it has left when it was gone is in the order: it may
// have numbers below the new ones, which have no effect behind them (RG2). The lock is held.
func (g *Gateway) next() *inbound {
	if !g.election.appointed {
		return nil
	}
	for i, b := range g.intake.arrivals {
		if before := g.intake.leaving[b.of.Endpoint.GUID]; len(before) == 0 || before[0] == b {
			g.intake.arrivals = slices.Delete(g.intake.arrivals, i, i+1)
			b.queued = false
			return b
		}
	}
	return nil
}

// left forgets a writer that is gone and has nothing left to carry. The lock is held.
func (g *Gateway) left(b *inbound) {
	id := b.of.Endpoint.GUID
	all := slices.DeleteFunc(g.intake.leaving[id], func(o *inbound) bool { return o == b })
	if g.intake.leaving[id] = all; len(all) == 0 {
		delete(g.intake.leaving, id)
	}
	if b.ended { // samples that waited for this end
		for _, o := range all {
			if !g.follows(o) {
				g.begins(o)
			}
		}
		for _, o := range g.intake.inbounds {
			if o.of.Endpoint.GUID == id && !g.follows(o) {
				g.begins(o)
			}
		}
	}
	g.notify()
}

// endWithin is how long a gateway that stands by expects the end of an origin in the space, once
// the DDS writer has said that it ends. Until then the samples of a writer that starts with the
// same GUID are not acknowledged: they have the numbers of earlier samples. If the gateway that
// carries did not get the end, it does not come.
const endWithin = 10 * time.Second

// follows reports whether an earlier writer with the GUID of this one has said that it ends, and
// its end is not known to be in the space. The lock is held.
func (g *Gateway) follows(b *inbound) bool {
	for _, o := range g.intake.leaving[b.of.Endpoint.GUID] {
		switch {
		case o == b:
			return false
		case o.ended:
			return true
		}
	}
	return false
}

// begins notes what the space has of the origin of a writer when its samples begin. The lock is
// held.
func (g *Gateway) begins(b *inbound) {
	p, err := g.p.Carried(g.ending, 0, func(of func(dds.Origin) (last, ended uint64)) { b.last, _ = of(b.origin) })
	if err == nil {
		b.since = p.Position
		b.of.Has(int64(b.last))
	}
}

// ordered returns the number of the last sample of a writer that is gone, and whether the space has
// the end of its origin.
func (g *Gateway) ordered(b *inbound) (last uint64, over bool) {
	ended := uint64(0)
	_, err := g.p.Carried(g.ending, 0, func(of func(dds.Origin) (last, ended uint64)) { last, ended = of(b.origin) })
	return last, err == nil && ended > b.since
}

// duplicate counts a sample that was in the space before its writer matched. The lock is held.
func (g *Gateway) duplicate(b *inbound) {
	g.stats.Duplicates++
	if b.duplicates++; b.duplicates&(b.duplicates-1) == 0 { // the 1st, 2nd, 4th, …
		g.log.Warn("a sample of a DDS writer that matches anew has no effect: the space has one with its number",
			"topic", b.topic.Name, "writer", b.of.Endpoint.GUID, "last", b.last, "duplicates", b.duplicates)
	}
}

// retryEvery is between two attempts to carry samples that the space does not take. Their writer is
// blocked, and no other one. Those of a writer that is gone are given up after so many attempts.
const (
	retryEvery = time.Second
	attempts   = 10
)

// rest has the samples of a writer sent again later, which the space did not take. Samples that are
// in the order by then have no second effect. The lock is held.
func (g *Gateway) rest(b *inbound) {
	g.intake.arrivals = slices.DeleteFunc(g.intake.arrivals, func(o *inbound) bool { return o == b })
	if b.gone {
		if b.refused++; b.refused == attempts {
			g.log.Error("samples of a DDS writer that is gone are given up", "topic", b.topic.Name, "writer", b.of.Endpoint.GUID, "samples", len(b.waiting))
			g.remove(b, len(b.waiting))
		}
	}
	b.carried, b.queued, b.resting = 0, true, true
	time.AfterFunc(retryEvery, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if b.resting {
			b.resting, b.carried = false, 0
			g.intake.arrivals = append(g.intake.arrivals, b)
			g.notify()
		}
	})
}

// send sends samples to the order. What is sent in one call comes in their order.
func (b *inbound) send(ctx context.Context, batch []arrival) (err error) {
	if b.writer == nil && slices.ContainsFunc(batch, func(a arrival) bool { return !a.refused }) {
		if b.writer, err = b.topic.space.WriterFor(ctx, b.topic.standIn(&b.of.Endpoint), b.origin); err != nil {
			return err
		}
	}
	for _, a := range batch {
		if a.refused {
			continue
		}
		if err := b.writer.Carry(ctx, a.Carried, a.Encoded); err != nil {
			return err
		}
	}
	return nil
}

// end closes the writer in the space and, if origin is true, ends its origin.
func (b *inbound) end(ctx context.Context, origin bool) (err error) {
	if !origin {
		return b.close(ctx)
	}
	if b.writer == nil { // another gateway has carried
		if b.writer, err = b.topic.space.WriterFor(ctx, b.topic.standIn(&b.of.Endpoint), b.origin); err != nil {
			return err
		}
	}
	w := b.writer
	b.writer = nil
	return w.CloseOrigin(ctx)
}

// close closes the writer in the space.
func (b *inbound) close(ctx context.Context) error {
	if b.writer == nil {
		return nil
	}
	w := b.writer
	b.writer = nil
	return w.Close(ctx)
}

// progress is a look at how far the order has come.
type progress struct {
	g    *Gateway
	log  *squall.Log // nil: the space has none
	seen []upTo
}

// upTo is a DDS writer, and the number of its last sample that is in the order.
type upTo struct {
	*inbound
	since uint64
	last  uint64
	over  bool // it is gone, and its origin has ended
}

func (g *Gateway) diskLog() *squall.Log {
	log, err := g.p.Subgroup().Log()
	if err != nil {
		return nil
	}
	return log
}

// follow acknowledges to DDS writers the samples that are in the order, and follows changes of the
// space.
func (g *Gateway) follow() {
	var (
		p        = progress{g: g, log: g.diskLog()}
		changes  uint64
		position uint64
	)
	changes-- // the first look is at all
	g.repeat("following the space", func() error {
		if _, err := g.p.Carried(g.ending, position, func(func(dds.Origin) (last, ended uint64)) {}); err != nil {
			return err
		}
		now, err := g.look(&p)
		if err != nil {
			return err
		}
		position = now.Position
		if now.Changes != changes {
			changes = now.Changes
			g.elect(g.p.Endpoints())
		}
		return nil
	})
}

// repeat does something until the gateway ends, and goes on after failures, of which the first one
// in a row, the second, the fourth and so on are logged.
func (g *Gateway) repeat(what string, step func() error) {
	for failures := uint64(0); g.ending.Err() == nil; {
		err := step()
		if err == nil {
			failures = 0
			continue
		}
		if g.ending.Err() != nil {
			return
		}
		if failures++; failures&(failures-1) == 0 {
			g.log.Error(what, "failures", failures, "error", err)
		}
		select {
		case <-g.ending.Done():
		case <-time.After(retryEvery):
		}
	}
}

// look acknowledges the samples that are in the order by now; samples of persistent topics once
// they are on the disks.
func (g *Gateway) look(l *progress) (member.Progress, error) {
	l.seen = l.seen[:0]
	g.mu.Lock()
	for _, b := range g.intake.inbounds {
		if len(b.waiting) > 0 && !g.follows(b) {
			l.seen = append(l.seen, upTo{inbound: b, since: b.since})
		}
	}
	for _, b := range g.intake.arrivals {
		if b.gone && (len(b.waiting) > 0 || b.ended) && !g.follows(b) {
			l.seen = append(l.seen, upTo{inbound: b, since: b.since, over: true})
		}
	}
	g.mu.Unlock()
	p, err := g.p.Carried(g.ending, 0, func(of func(dds.Origin) (last, ended uint64)) {
		for i := range l.seen {
			s := &l.seen[i]
			last, ended := of(s.origin)
			s.last, s.over = last, s.over && ended > s.since
		}
	})
	if err != nil || len(l.seen) == 0 {
		return p, err
	}
	if g.acknowledgeAll(l.seen, func(b *inbound) bool { return l.log == nil || b.topic.QoS.Durability != qos.Persistent }) {
		if err := l.log.WaitPersisted(g.ending, squall.OnEveryDisk, p.Version); err != nil {
			return p, err
		}
		g.acknowledgeAll(l.seen, func(*inbound) bool { return true })
	}
	return p, nil
}

// acknowledgeAll acknowledges samples of those for which now is true, and reports whether there are
// others.
func (g *Gateway) acknowledgeAll(all []upTo, now func(*inbound) bool) (others bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range all {
		if !now(s.inbound) {
			others = true
		} else {
			if s.over = s.over && s.gone; s.over {
				s.inbound.over = true
				g.remove(s.inbound, len(s.waiting))
			}
			g.acknowledge(s.inbound, s.last)
		}
	}
	if !g.election.appointed { // of writers that are gone, another gateway has carried everything
		g.intake.arrivals = slices.DeleteFunc(g.intake.arrivals, func(b *inbound) bool {
			done := b.gone && !b.sent && len(b.waiting) == 0 && (!b.ended || b.over || time.Since(b.left) > endWithin)
			if done {
				g.left(b)
			}
			return done
		})
	}
	g.settle()
	return others
}

// acknowledge forgets samples that are where they are to be, and those behind them that were
// refused, and tells their writer (RG1). The lock is held.
func (g *Gateway) acknowledge(b *inbound, last uint64) {
	n := 0
	for ; n < len(b.waiting) && (b.waiting[n].Sequence <= last || b.waiting[n].refused); n++ {
		last = max(last, b.waiting[n].Sequence)
		if !b.waiting[n].refused {
			g.stats.Acknowledged++
		}
	}
	if n > 0 {
		g.remove(b, n)
	}
	if !b.gone && last > 0 {
		b.of.Acknowledge(g.now(), int64(last))
	}
}
