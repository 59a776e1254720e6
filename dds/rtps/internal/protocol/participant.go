package protocol

import (
	"math"
	"slices"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// Config is what a participant is told at its beginning.
type Config struct {
	Prefix   wire.Prefix
	Domain   int32
	Name     string
	UserData []byte
	// Metatraffic and Default are where this participant receives discovery and samples.
	Metatraffic, Default []wire.Locator
	// Multicast is where it receives samples for several participants.
	Multicast []wire.Locator
	// Announce is where announcements go: addresses at which participants may be, and groups.
	Announce []wire.Locator
	// Lease is what writers offer; others forget this participant after 7/8 of it without a message. 0
	// is 10 s.
	Lease time.Duration
	// Ignore reports a participant that is not to be known, by its announcement.
	Ignore func(*wire.Participant) bool
	// Refuse reports a writer of a peer that no reader may match. A reason, if there is one, goes to
	// Host.Incompatible.
	Refuse func(*wire.Endpoint) (why string, refused bool)

	MessageBytes  int // the largest message; 0 is 14,720
	FragmentBytes int // samples that are larger go in fragments of this size; 0 is 1,344
	SampleBytes   int // the largest sample that is received; 0 is 64 MiB
	// Secret is known to this participant alone: peers prove with what follows from it that they
	// receive what is sent to them.
	Secret [32]byte
	// Silent is how long a reliable reader may owe an answer; then it does not hold up its writer any
	// more. 0 is a minute.
	Silent time.Duration

	WindowBytes int // sent to a reader and not acknowledged; 0 is 192 KiB
}

// Host is told what happens. Its methods must not call the participant.
type Host interface {
	// Send sends a message, which is valid until the call returns.
	Send(to wire.Locator, message []byte)
	// Sample takes the next sample of a writer, or returns false: there is no room. The writer, if it
	// is reliable, is then asked for the sample again. Its payload stays as it is.
	Sample(r *Reader, from *RemoteWriter, s Sample) bool
	// WriterMatched and WriterGone tell of writers that match a reader.
	WriterMatched(r *Reader, w *RemoteWriter)
	WriterGone(r *Reader, w *RemoteWriter)
	// ReaderMatched and ReaderGone tell of readers that match a writer.
	ReaderMatched(w *Writer, r wire.Endpoint)
	ReaderGone(w *Writer, r wire.Endpoint)
	// ReaderSilent tells that a reader does not match any more because it has not answered. It matches
	// again when it answers.
	ReaderSilent(w *Writer, r wire.Endpoint)
	// Incompatible tells why an endpoint of a peer does not match one of this participant with the
	// same topic.
	Incompatible(local, remote wire.Endpoint, why string, policies []qos.Policy)
	// Room tells that a writer which had none has room again.
	Room(w *Writer)
}

// Sample is a sample that a writer of a peer has written.
type Sample struct {
	Sequence int64
	Source   int64 // time of the writer, in nanoseconds since the Unix epoch; 0: not told
	Status   wire.Status
	IsKey    bool // the payload is a serialized key
	Payload  []byte
	Hash     *[16]byte // of the key, if the writer sent it
}

// Bounds of the memory that is kept for other participants.
const (
	maxPeers     = 1024
	maxEndpoints = 4096    // of one peer
	allEndpoints = 1 << 14 // of all peers
	// bytes of memory of what one peer, and all peers, announced of their endpoints
	endpointBytes, allEndpointBytes = 8 << 20, 64 << 20
	maxHeld                         = 4096    // samples of one writer that came before their turn
	maxAhead                        = 1 << 16 // that a held sample is before its turn, so that a writer which passes many numbers costs no more steps
	heldBytes                       = 16 << 20
	maxKept                         = 256 << 20 // bytes of samples, held and in fragments, of all writers
	maxPartial                      = 64        // samples of one writer of which fragments have come
	maxFragments                    = 1 << 16   // of one sample
)

// Times of the protocol.
const (
	heartbeatEvery = 100 * time.Millisecond // doubled with each heartbeat that is not answered
	heartbeatMost  = 2 * time.Second
	nackEvery      = 20 * time.Millisecond
	answerWithin   = 100 * time.Millisecond
	drainedEvery   = 500 * time.Microsecond
	firstEvery     = 25 * time.Millisecond // that a reader asks for the first heartbeat
	defaultLease   = 10 * time.Second
	defaultSilent  = time.Minute
)

const never = int64(math.MaxInt64)

// Participant is one participant of a domain.
type Participant struct {
	cfg   Config
	host  Host
	peers []*peer
	byID  map[wire.Prefix]*peer
	// proxies finds the readers of this participant that a writer of a peer matches.
	proxies map[wire.GUID][]*RemoteWriter

	writers []*Writer
	readers []*Reader
	byEnt   map[wire.EntityID]*Writer

	publications, subscriptions, liveliness       *Writer
	publicationsOf, subscriptionsOf, livelinessOf *Reader

	now      int64
	due      int64 // when Tick has something to do
	announce int64
	alive    int64 // when liveliness is asserted next
	dirty    []*outbox
	plain    wire.Appender
	number   uint32
	length   int // of the message that is received
	credit   int // bytes that it pays for, if its sender has proved nothing (RT5)
	guessed  guessed
	kept     int // bytes of samples, held and in fragments, of all writers
	closed   bool
}

// outbox is a message to a participant that is being put together.
type outbox struct {
	of     *peer
	to     wire.Locator
	target wire.Prefix
	msg    wire.Appender
	time   int64 // the last source time in the message
	timed  bool
	queued bool
}

// New returns a participant that begins now.
func New(cfg Config, host Host, now int64) *Participant {
	if cfg.Lease == 0 {
		cfg.Lease = defaultLease
	}
	if cfg.Silent == 0 {
		cfg.Silent = defaultSilent
	}
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&cfg.MessageBytes, 14720)
	def(&cfg.FragmentBytes, 1344)
	def(&cfg.SampleBytes, 64<<20)
	def(&cfg.WindowBytes, 192<<10)
	p := &Participant{
		cfg: cfg, host: host, byID: map[wire.Prefix]*peer{}, proxies: map[wire.GUID][]*RemoteWriter{}, byEnt: map[wire.EntityID]*Writer{},
		now: now, due: now, announce: now, alive: now,
	}
	durable := qos.Set{Durability: qos.TransientLocal}
	writer := func(id wire.EntityID) *Writer {
		w := p.newWriter(wire.Endpoint{GUID: wire.GUID{Prefix: cfg.Prefix, Entity: id}, QoS: durable})
		p.byEnt[id] = w
		return w
	}
	reader := func(id wire.EntityID) *Reader {
		return &Reader{p: p, Endpoint: wire.Endpoint{GUID: wire.GUID{Prefix: cfg.Prefix, Entity: id}, QoS: durable}, automatic: true}
	}
	p.publications, p.publicationsOf = writer(wire.PublicationsWriter), reader(wire.PublicationsReader)
	p.subscriptions, p.subscriptionsOf = writer(wire.SubscriptionsWriter), reader(wire.SubscriptionsReader)
	p.liveliness, p.livelinessOf = writer(wire.LivelinessWriter), reader(wire.LivelinessReader)
	return p
}

// Due is when Tick has something to do.
func (p *Participant) Due() int64 { return p.due }

func (p *Participant) wake(at int64) { p.due = min(p.due, at) }

// present announces this participant, and its liveliness, when their times have come.
func (p *Participant) present(now int64) {
	if p.announce <= now {
		p.announce = now + int64(p.cfg.Lease)/4
		p.announceTo(p.cfg.Announce)
		for _, o := range p.peers { // that are not at a configured address
			if o.proved && !slices.Contains(p.cfg.Announce, o.meta.to) {
				p.introduce(o)
			}
		}
		for _, w := range p.writers {
			w.ask()
		}
	}
	p.wake(p.announce)
	if p.alive <= now {
		p.alive = now + int64(p.cfg.Lease)/3
		if len(p.peers) > 0 {
			p.liveliness.Write(Change{Payload: wire.AppendLiveliness(nil, p.cfg.Prefix)})
		}
	}
	p.wake(p.alive)
}

// Tick ends leases that have run out, and sends announcements and repairs whose times have come.
func (p *Participant) Tick(now int64) {
	p.now, p.due = now, never
	if p.closed {
		return
	}
	for _, o := range slices.Clone(p.peers) {
		if o.until <= now {
			p.forget(o)
		} else {
			p.wake(o.until)
		}
	}
	p.present(now)
	for _, w := range []*Writer{p.publications, p.subscriptions, p.liveliness} {
		w.tick()
	}
	for _, w := range p.writers {
		w.tick()
	}
	for _, r := range []*Reader{p.publicationsOf, p.subscriptionsOf, p.livelinessOf} {
		r.tick()
	}
	for _, r := range p.readers {
		r.tick()
	}
	p.Flush()
}

// begin returns a message to a peer with room for a submessage.
func (p *Participant) begin(o *outbox, need int) *wire.Appender {
	if o.queued && o.msg.Len()+need > p.cfg.MessageBytes {
		p.send(o)
	}
	if !o.queued {
		o.queued = true
		p.dirty = append(p.dirty, o)
	}
	if o.msg.Empty() {
		o.msg.Reset(p.cfg.Prefix)
		o.msg.Target(o.target)
		o.timed = false
	}
	return &o.msg
}

func (p *Participant) send(o *outbox) {
	if !o.msg.Empty() {
		p.put(o.of, o.to, o.msg.Bytes())
	}
	o.msg.Reset(p.cfg.Prefix)
	o.msg.Target(o.target)
	o.timed = false
}

// Flush sends what was put together.
func (p *Participant) Flush() {
	for _, o := range p.dirty {
		p.flush(o)
	}
	p.dirty = p.dirty[:0]
}

func (p *Participant) flush(o *outbox) {
	if o.queued {
		p.put(o.of, o.to, o.msg.Bytes())
		o.queued = false
		o.msg.Reset(p.cfg.Prefix)
	}
}

// Close tells the peers that this participant ends.
func (p *Participant) Close(now int64) {
	p.now, p.closed = now, true
	p.Flush()
	p.plain.Reset(p.cfg.Prefix)
	p.plain.Data(wire.ParticipantReader, wire.ParticipantWriter, 1, wire.Disposed|wire.Unregistered, wire.AppendParticipantKey(nil, p.cfg.Prefix))
	for _, to := range p.cfg.Announce {
		p.host.Send(to, p.plain.Bytes())
	}
	for _, o := range p.peers {
		if !slices.Contains(p.cfg.Announce, o.meta.to) {
			p.put(o, o.meta.to, p.plain.Bytes())
		}
	}
}

// Receive takes a message, which it keeps, and the address that it came from. An error is about a
// message that is malformed, of which a part may have taken effect.
func (p *Participant) Receive(now int64, at wire.Locator, message []byte) error {
	p.now, p.length, p.credit = now, len(message), unprovedTimes*(len(message)+headerBytes)
	d, err := wire.NewDecoder(message)
	if err != nil || d.Source == p.cfg.Prefix || p.closed {
		return err
	}
	from := p.byID[d.Source]
	if from != nil {
		from.heard(p)
		p.pay(from)
	}
	c := context{peer: from, prefix: d.Source, from: at}
	for {
		s, ok, err := d.Next()
		if err != nil || !ok {
			return err
		}
		if err := p.submessage(&c, &s); err != nil {
			return err
		}
		if c.stop {
			return nil
		}
	}
}

// context is what submessages say about the ones behind them.
type context struct {
	peer   *peer // nil: not known
	prefix wire.Prefix
	from   wire.Locator
	others bool // they are for another participant
	stop   bool
	source int64
}

// known reports whether samples of the sender are taken: it has proved its address, so that nothing
// is kept for a host that cannot answer (RT4).
func (c *context) known() bool { return c.peer != nil && c.peer.proved }

func (p *Participant) submessage(c *context, s *wire.Submessage) error {
	switch s.Kind {
	case wire.KindInfoTarget:
		target, err := s.Target()
		c.others = target != wire.Prefix{} && target != p.cfg.Prefix
		return err
	case wire.KindInfoTime:
		at, ok, err := s.InfoTime()
		if !ok {
			at = 0
		}
		c.source = at
		return err
	case wire.KindInfoSource: // relayed for another participant
		c.stop = true
		return nil
	}
	if c.others {
		return nil
	}
	switch s.Kind {
	case wire.KindData:
		d, err := s.Data()
		if err != nil {
			return err
		}
		return p.data(c, &d)
	case wire.KindDataFrag, wire.KindHeartbeat, wire.KindGap:
		return p.fromWriter(c, s)
	case wire.KindAckNack, wire.KindNackFrag:
		return p.fromReader(c, s)
	case wire.KindHeartbeatFrag: // the next heartbeat tells the missing numbers
		_, err := s.HeartbeatFrag()
		return err
	}
	return nil
}

// fromWriter takes what a remote writer says to its readers here.
func (p *Participant) fromWriter(c *context, s *wire.Submessage) error {
	proxies := func(id wire.EntityID) []*RemoteWriter { return p.proxies[wire.GUID{Prefix: c.prefix, Entity: id}] }
	concerns := func(to wire.EntityID, rw *RemoteWriter) bool {
		return to == wire.Unknown || to == rw.reader.Endpoint.GUID.Entity
	}
	switch s.Kind {
	case wire.KindDataFrag:
		d, err := s.DataFrag()
		if err != nil || !c.known() {
			return err
		}
		status, hash, err := d.Change()
		if err != nil {
			return err
		}
		for _, rw := range proxies(d.Writer) {
			rw.fragment(&d, Sample{Sequence: d.Sequence, Source: c.source, Status: status, Hash: hash, IsKey: d.IsKey})
		}
	case wire.KindHeartbeat:
		h, err := s.Heartbeat()
		if err != nil || c.peer == nil {
			return err
		}
		var restarted []*RemoteWriter
		for _, rw := range proxies(h.Writer) {
			if concerns(h.Reader, rw) && rw.heartbeat(&h) {
				restarted = append(restarted, rw)
			}
		}
		for _, rw := range restarted {
			if rw.reader.automatic {
				p.meetAgain(c)
				return nil
			}
			rw.startAgain()
		}
	case wire.KindGap:
		g, err := s.Gap()
		if err != nil || !c.known() {
			return err
		}
		for _, rw := range proxies(g.Writer) {
			if concerns(g.Reader, rw) {
				rw.gap(&g)
			}
		}
	}
	return nil
}

// fromReader takes what a remote reader says to a writer here.
func (p *Participant) fromReader(c *context, s *wire.Submessage) error {
	if s.Kind == wire.KindAckNack {
		a, err := s.AckNack()
		if w := p.byEnt[a.Writer]; err == nil && c.peer != nil && w != nil {
			w.acknack(wire.GUID{Prefix: c.prefix, Entity: a.Reader}, &a)
		}
		return err
	}
	n, err := s.NackFrag()
	if w := p.byEnt[n.Writer]; err == nil && c.peer != nil && w != nil {
		w.nackFrag(wire.GUID{Prefix: c.prefix, Entity: n.Reader}, &n)
	}
	return err
}

func (p *Participant) data(c *context, d *wire.Data) error {
	status, hash, err := d.Change()
	if err != nil {
		return err
	}
	if d.Writer == wire.ParticipantWriter {
		return p.announcement(c, d, status)
	}
	if !c.known() {
		return nil
	}
	s := Sample{Sequence: d.Sequence, Source: c.source, Status: status, Hash: hash, IsKey: d.IsKey, Payload: d.Payload}
	all := p.proxies[wire.GUID{Prefix: c.prefix, Entity: d.Writer}]
	if len(all) > 0 && 4*len(d.Payload) < p.length { // a small sample must not keep a large message
		s.Payload = slices.Clone(d.Payload)
	}
	for _, rw := range all {
		if d.Reader == wire.Unknown || d.Reader == rw.reader.Endpoint.GUID.Entity {
			rw.sample(s)
		}
	}
	return nil
}
