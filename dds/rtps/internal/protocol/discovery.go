package protocol

import (
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// peer is another participant.
type peer struct {
	Prefix     wire.Prefix
	Vendor     [2]byte
	Lease      time.Duration
	until      int64  // when it is forgotten, unless it is heard of
	paths      []path // its addresses
	at         int    // the one that is used
	meta, data outbox
	own        []*outbox       // of endpoints with an address of their own
	since      int64           // when it was discovered
	proved     bool            // it has answered what was sent to its address alone
	budget     int             // bytes that may be sent to it until then
	writers    []wire.Endpoint // that it announced
	readers    []wire.Endpoint
	bytes      int              // of memory that these take
	said       wire.Participant // its last announcement, without name and user data
	from       wire.Locator     // where that came from
}

func (o *peer) announced(a *wire.Participant, from wire.Locator) {
	o.Lease, o.said, o.from = a.Lease, *a, from
	o.said.Name, o.said.UserData = "", nil
}

func (o *peer) heard(p *Participant) {
	o.until = never
	if o.Lease != wire.Infinite {
		o.until = p.now + int64(o.Lease)
	}
	if !o.proved { // RT5
		o.until = min(o.until, o.since+int64(provedWithin))
	}
}

// evict removes the oldest peer whose address is not verified (RT5), and reports whether there was
// such a peer.
func (p *Participant) evict() bool {
	for _, o := range p.peers {
		if !o.proved {
			p.forget(o)
			return true
		}
	}
	return false
}

// announceTo says that this participant is there.
func (p *Participant) announceTo(all []wire.Locator) {
	message := p.announcementOf()
	for _, to := range all {
		p.host.Send(to, message)
	}
}

// announcementOf returns the announcement of this participant. Its lease is shorter than the one
// that writers offer: CycloneDDS 0.10 watches the shortest lease of a participant and its writers.
// When the end of a writer leaves another lease of the same duration as the shortest one,
// CycloneDDS counts that lease as expired, and forgets the participant.
func (p *Participant) announcementOf() []byte {
	lease := p.cfg.Lease
	if lease != wire.Infinite {
		lease -= lease / 8
	}
	me := wire.Participant{
		Prefix: p.cfg.Prefix, Lease: lease, Builtin: wire.BuiltinEndpoints, Domain: p.cfg.Domain, Name: p.cfg.Name, UserData: p.cfg.UserData,
		Metatraffic: p.cfg.Metatraffic, Default: p.cfg.Default, Multicast: p.cfg.Multicast,
	}
	p.plain.Reset(p.cfg.Prefix)
	p.plain.Data(wire.Unknown, wire.ParticipantWriter, 1, 0, me.Append(nil))
	return p.plain.Bytes()
}

// announcement takes what a participant says of itself.
func (p *Participant) announcement(c *context, d *wire.Data, status wire.Status) error {
	if status != 0 || d.IsKey {
		return p.farewell(c, d)
	}
	if !d.HasPayload {
		return nil
	}
	a, err := wire.ParseParticipant(d.Payload)
	a.Metatraffic, a.Default = slices.DeleteFunc(a.Metatraffic, p.ignored), slices.DeleteFunc(a.Default, shared)
	switch {
	case err != nil:
		return err
	case a.Prefix != c.prefix || len(a.Metatraffic) == 0 || a.Domain >= 0 && a.Domain != p.cfg.Domain:
		return nil
	case p.cfg.Ignore != nil && p.cfg.Ignore(&a):
		return nil
	}
	if o := p.byID[a.Prefix]; o != nil {
		o.announced(&a, c.from)
		o.heard(p)
		if !o.proved {
			p.try(o, (o.at+1)%len(o.paths))
		}
		return nil
	}
	if len(p.peers) < maxPeers || p.evict() {
		p.meet(c, &a)
	}
	return nil
}

// farewell forgets a participant that says that it ends.
func (p *Participant) farewell(c *context, d *wire.Data) error {
	g := wire.GUID{Prefix: c.prefix}
	if d.HasPayload {
		var err error
		if g, err = wire.ParseKey(d.Payload); err != nil {
			return err
		}
	}
	if o := p.byID[g.Prefix]; o != nil && g.Prefix == c.prefix {
		p.end(o.writers)
		p.forget(o)
		c.peer = nil
	}
	return nil
}

// meetAgain ends a participant whose program has started again with the same prefix before its
// lease has ended, and takes it in anew, as it announced itself last.
func (p *Participant) meetAgain(c *context) {
	o := c.peer
	p.end(o.writers)
	p.forget(o)
	c.from = o.from
	p.meet(c, &o.said)
}

// meet takes in a participant that was not known.
func (p *Participant) meet(c *context, a *wire.Participant) {
	o := &peer{Prefix: a.Prefix, Vendor: a.Vendor, since: p.now, paths: p.pathsOf(a, c.from)}
	o.announced(a, c.from)
	o.meta = outbox{target: a.Prefix, of: o}
	o.data = o.meta
	p.pay(o)
	p.use(o, 0)
	o.heard(p)
	p.wake(o.until)
	p.peers, p.byID[a.Prefix] = append(p.peers, o), o
	c.peer = o
	p.introduce(o)
	p.matchBuiltin(o, a)
}

// matchBuiltin matches the endpoints that every participant has.
func (p *Participant) matchBuiltin(o *peer, a *wire.Participant) {
	remote := func(id wire.EntityID) wire.Endpoint {
		return wire.Endpoint{GUID: wire.GUID{Prefix: a.Prefix, Entity: id}, QoS: p.publications.Endpoint.QoS}
	}
	for _, b := range []struct {
		bit  uint32
		w    *Writer
		peer wire.EntityID
	}{
		{wire.HasPublicationsReader, p.publications, wire.PublicationsReader},
		{wire.HasSubscriptionsReader, p.subscriptions, wire.SubscriptionsReader},
		{wire.HasLivelinessReader, p.liveliness, wire.LivelinessReader},
	} {
		if a.Builtin&b.bit != 0 {
			b.w.match(o, remote(b.peer))
		}
	}
	for _, b := range []struct {
		bit  uint32
		r    *Reader
		peer wire.EntityID
	}{
		{wire.HasPublicationsWriter, p.publicationsOf, wire.PublicationsWriter},
		{wire.HasSubscriptionsWriter, p.subscriptionsOf, wire.SubscriptionsWriter},
		{wire.HasLivelinessWriter, p.livelinessOf, wire.LivelinessWriter},
	} {
		if a.Builtin&b.bit != 0 {
			b.r.match(o, remote(b.peer))
		}
	}
}

// forget ends all that is known of a peer.
func (p *Participant) forget(o *peer) {
	for _, e := range slices.Clone(o.writers) {
		p.withoutWriter(o, e.GUID)
	}
	for _, e := range slices.Clone(o.readers) {
		p.withoutReader(o, e.GUID)
	}
	for _, w := range []*Writer{p.publications, p.subscriptions, p.liveliness} {
		w.unmatchPeer(o)
	}
	for _, r := range []*Reader{p.publicationsOf, p.subscriptionsOf, p.livelinessOf} {
		r.unmatchPeer(o)
	}
	for _, w := range p.writers {
		w.forget(func(r *remoteReader) bool { return r.of == o })
	}
	o.meta.queued, o.data.queued = false, false
	for _, own := range o.own {
		own.queued = false
	}
	delete(p.byID, o.Prefix)
	p.peers = slices.DeleteFunc(p.peers, func(q *peer) bool { return q == o })
}

// discovered takes a sample of the writers of discovery.
func (p *Participant) discovered(r *Reader, o *peer, s *Sample) {
	if r == p.livelinessOf { // that it was heard of is enough
		return
	}
	readers := r == p.subscriptionsOf
	if s.Status != 0 || s.IsKey {
		g, err := wire.ParseKey(s.Payload)
		if err != nil && s.Hash != nil {
			g, err = wire.GUIDOf(*s.Hash), nil
		}
		switch {
		case err != nil || g.Prefix != o.Prefix:
		case readers:
			p.withoutReader(o, g)
		default:
			p.end([]wire.Endpoint{{GUID: g}})
			p.withoutWriter(o, g)
		}
		return
	}
	if len(s.Payload) > wire.AnnouncementBytes { // RT4
		return
	}
	e, err := wire.ParseEndpoint(s.Payload, readers)
	if err != nil || e.GUID.Prefix != o.Prefix {
		return
	}
	if !p.roomFor(o, &e) {
		return
	}
	if readers {
		p.withReader(o, e)
	} else {
		p.withWriter(o, e)
	}
}

// roomFor reports whether an endpoint of a peer may be known, in the place of what is known of it
// already (RT4).
func (p *Participant) roomFor(o *peer, e *wire.Endpoint) bool {
	all, bytes, more := 0, 0, e.Memory()
	for _, q := range p.peers {
		all += len(q.writers) + len(q.readers)
		bytes += q.bytes
	}
	known := o.endpoint(e.GUID)
	if known != nil {
		more -= known.Memory()
	} else if all >= allEndpoints || len(o.writers)+len(o.readers) >= maxEndpoints {
		return false
	}
	return more <= 0 || o.bytes+more <= endpointBytes && bytes+more <= allEndpointBytes
}

// endpoint returns what a peer announced of an endpoint, or nil.
func (o *peer) endpoint(g wire.GUID) *wire.Endpoint {
	for _, all := range [][]wire.Endpoint{o.writers, o.readers} {
		if i := indexOf(all, g); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

// with returns the endpoints of a list with one more, or with one that has changed.
func (o *peer) with(all []wire.Endpoint, e wire.Endpoint) []wire.Endpoint {
	all = o.without(all, e.GUID)
	o.bytes += e.Memory()
	return append(all, e)
}

// without returns the endpoints of a list but one.
func (o *peer) without(all []wire.Endpoint, g wire.GUID) []wire.Endpoint {
	return slices.DeleteFunc(all, func(e wire.Endpoint) bool {
		if e.GUID != g {
			return false
		}
		o.bytes -= e.Memory()
		return true
	})
}

func indexOf(all []wire.Endpoint, g wire.GUID) int {
	return slices.IndexFunc(all, func(e wire.Endpoint) bool { return e.GUID == g })
}

func (p *Participant) withWriter(o *peer, e wire.Endpoint) {
	o.writers = o.with(o.writers, e)
	for _, r := range p.readers {
		p.consider(o, e, r)
	}
}

func (p *Participant) consider(o *peer, e wire.Endpoint, r *Reader) {
	if e.Topic != r.Endpoint.Topic {
		return
	}
	why, policies, partitions := mismatch(&e, &r.Endpoint)
	refused := false
	if p.cfg.Refuse != nil {
		if reason, no := p.cfg.Refuse(&e); no {
			why, policies, refused = reason, nil, true
		}
	}
	at := r.proxy(e.GUID)
	switch {
	case refused && at != nil:
		r.unmatch(at)
	case refused:
	case why == "" && !partitions && at != nil:
		at.Endpoint, at.out = e, p.outboxOf(o, &e)
	case why == "" && !partitions:
		r.match(o, e)
	case at != nil:
		r.unmatch(at)
	}
	if why != "" {
		p.host.Incompatible(r.Endpoint, e, why, policies)
	}
}

func (p *Participant) withReader(o *peer, e wire.Endpoint) {
	o.readers = o.with(o.readers, e)
	for _, w := range p.writers {
		w.forget(func(r *remoteReader) bool { return r.Endpoint.GUID == e.GUID }) // it says that it is there
		p.considerReader(o, e, w)
	}
}

func (p *Participant) considerReader(o *peer, e wire.Endpoint, w *Writer) {
	if e.Topic != w.Endpoint.Topic {
		return
	}
	why, policies, partitions := mismatch(&w.Endpoint, &e)
	if e.ExpectsInline {
		why = "the reader asks for policies with each sample"
	}
	at := w.proxy(e.GUID)
	switch {
	case w.wasSilent(e.GUID) != nil:
	case why == "" && !partitions && at == nil:
		w.match(o, e)
	case why == "" && !partitions:
		at.out = p.outboxOf(o, &e)
	case (why != "" || partitions) && at != nil:
		w.unmatch(at)
	}
	if why != "" {
		p.host.Incompatible(w.Endpoint, e, why, policies)
	}
}

// mismatch says why a writer and a reader of one topic do not match: a reason, or that their
// partitions differ.
func mismatch(w, r *wire.Endpoint) (why string, policies []qos.Policy, partitions bool) {
	switch {
	case w.Type != r.Type:
		return fmt.Sprintf("the writer has the type %q, the reader %q", w.Type, r.Type), nil, false
	case w.GUID.Entity.Keyed() != r.GUID.Entity.Keyed():
		return "one of them has keys, and the other has none", nil, false
	}
	offered, wanted := wire.XCDR1, r.Representations
	if len(w.Representations) > 0 {
		offered = w.Representations[0]
	}
	if len(wanted) == 0 {
		wanted = []int16{wire.XCDR1}
	}
	if !slices.Contains(wanted, offered) {
		return fmt.Sprintf("the writer writes the representation %d, the reader takes %v", offered, wanted), nil, false
	}
	matched, policies := qos.Match(&w.QoS, &r.QoS)
	if len(policies) > 0 {
		return fmt.Sprintf("incompatible policies: %v", policies), policies, false
	}
	return "", nil, !matched
}

func (p *Participant) withoutWriter(o *peer, g wire.GUID) {
	o.writers = o.without(o.writers, g)
	for _, rw := range slices.Clone(p.proxies[g]) {
		rw.reader.unmatch(rw)
	}
}

func (p *Participant) withoutReader(o *peer, g wire.GUID) {
	o.readers = o.without(o.readers, g)
	for _, w := range p.writers {
		w.forget(func(r *remoteReader) bool { return r.Endpoint.GUID == g })
		if at := w.proxy(g); at != nil {
			w.unmatch(at)
		}
	}
}

// Peers is the number of participants that are known.
func (p *Participant) Peers() int { return len(p.peers) }

// OpenWriter adds a writer, which must be one that can be announced (wire.Endpoint.Check), and
// announces it to the peers. Peers with a matching reader get the samples.
func (p *Participant) OpenWriter(now int64, e wire.Endpoint, keyed bool) *Writer {
	p.now = now
	p.number++
	e.GUID = wire.GUID{Prefix: p.cfg.Prefix, Entity: wire.Writer(p.number, keyed)}
	w := p.newWriter(e)
	p.writers, p.byEnt[e.GUID.Entity] = append(p.writers, w), w
	p.publications.Write(Change{Key: string(e.GUID.Entity[:]), Payload: e.Append(nil)})
	for _, o := range p.peers {
		for _, r := range o.readers {
			p.considerReader(o, r, w)
		}
	}
	return w
}

// OpenReader adds a reader, which must be one that can be announced (wire.Endpoint.Check).
func (p *Participant) OpenReader(now int64, e wire.Endpoint, keyed bool) *Reader {
	p.now = now
	p.number++
	e.GUID = wire.GUID{Prefix: p.cfg.Prefix, Entity: wire.Reader(p.number, keyed)}
	r := &Reader{p: p, Endpoint: e}
	p.readers = append(p.readers, r)
	p.subscriptions.Write(Change{Key: string(e.GUID.Entity[:]), Payload: e.Append(nil)})
	for _, o := range p.peers {
		for _, w := range o.writers {
			p.consider(o, w, r)
		}
	}
	return r
}

// CloseWriter ends a writer.
func (p *Participant) CloseWriter(now int64, w *Writer) {
	p.now = now
	p.writers = slices.DeleteFunc(p.writers, func(o *Writer) bool { return o == w })
	delete(p.byEnt, w.Endpoint.GUID.Entity)
	p.publications.Write(Change{
		Key: string(w.Endpoint.GUID.Entity[:]), Status: wire.Disposed | wire.Unregistered, Payload: wire.AppendEndpointKey(nil, w.Endpoint.GUID),
	})
	for len(w.proxies) > 0 {
		w.unmatch(w.proxies[0])
	}
	w.history.without(w)
}

// CloseReader ends a reader.
func (p *Participant) CloseReader(now int64, r *Reader) {
	p.now = now
	p.readers = slices.DeleteFunc(p.readers, func(o *Reader) bool { return o == r })
	p.subscriptions.Write(Change{
		Key: string(r.Endpoint.GUID.Entity[:]), Status: wire.Disposed | wire.Unregistered, Payload: wire.AppendEndpointKey(nil, r.Endpoint.GUID),
	})
	for len(r.writers) > 0 {
		r.unmatch(r.writers[0])
	}
}
