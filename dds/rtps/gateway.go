package rtps

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/protocol"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/wait"
)

// Gateway carries samples between a domain of DDS and a space.
type Gateway struct {
	cfg     Config
	log     *slog.Logger
	p       *member.Member
	sockets *sockets
	begun   time.Time
	topics  []*topic
	office  *dds.Writer[[]byte] // stands for this gateway among the gateways of its side; its GROUP_DATA are the prefix
	prefix  wire.Prefix         // of its GUIDs in DDS

	mu       sync.Mutex
	machine  *protocol.Participant
	intake   intake
	election election
	stats    Stats
	told     map[string]bool // incompatible endpoints that were logged
	others   others
	clock    clock

	room    *sync.Cond // of mu: a writer has room, or the gateway ends
	ending  context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

// intake is what came from writers on the network. A writer is in inbounds or, when it is gone and
// not closed yet, in leaving. held counts the samples of all.
type intake struct {
	inbounds map[*protocol.RemoteWriter]*inbound
	arrivals []*inbound               // with samples that were not carried, or of writers that are gone
	leaving  map[wire.GUID][]*inbound // of writers that are gone, what is not closed yet
	held     held
	work     wait.Bell // there are arrivals, or the appointment changed
}

func newIntake() intake {
	return intake{inbounds: map[*protocol.RemoteWriter]*inbound{}, leaving: map[wire.GUID][]*inbound{}, work: wait.NewBell()}
}

// election says whether this gateway is the active one of its side.
type election struct {
	appointed bool
	changed   chan struct{} // closed when appointed changes, and made anew
}

// others are the gateways of this space, and the participants that have the name of one.
type others struct {
	gateways  map[wire.Prefix]bool
	namesakes map[wire.Prefix]int // their announcements
}

// clock says when the machine is ticked.
type clock struct {
	next    int64
	earlier wait.Bell // earlier than at next
}

// topic is a topic that is carried.
type topic struct {
	Topic
	space  *dds.Topic[dds.Encoded]
	reader *protocol.Reader // of what comes in
}

// Stats counts what a gateway did.
type Stats struct {
	Active       bool   // this gateway carries samples; others of its side stand by
	Participants int    // of DDS that are known
	Writers      int    // of DDS that match
	Readers      int    // of DDS that match; one that matches several writers counts for each
	Received     uint64 // samples from DDS
	Carried      uint64 // … into the space
	Acknowledged uint64 // … and acknowledged to their writers
	Written      uint64 // samples to DDS
	Duplicates   uint64 // samples from DDS that were in the space before their writer matched
	Malformed    uint64 // messages and samples that were refused
	Silent       uint64 // readers of DDS that did not match any more because they had not answered
	Multicast    uint64 // messages that came by multicast
}

// officeTopic is the topic whose writers are the gateways of a space, in the order in which they
// are appointed.
const officeTopic = "squall/rtps/gateways"

// marker begins the name by which a gateway recognises other gateways of its space.
const marker = "squall-gateway:"

// Open begins to carry. The topics are declared in the space.
func Open(ctx context.Context, cfg Config) (_ *Gateway, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Side = cmp.Or(cfg.Side, fmt.Sprintf("domain %d", cfg.Domain))
	cfg.Space = cmp.Or(cfg.Space, cfg.Member.Subgroup().Name())
	cfg.Lease = cmp.Or(cfg.Lease, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	g := &Gateway{
		cfg: cfg, log: cfg.Logger.With("side", cfg.Side), p: cfg.Member, begun: time.Now(), intake: newIntake(), told: map[string]bool{},
		others: others{namesakes: map[wire.Prefix]int{}}, election: election{changed: make(chan struct{})}, clock: clock{earlier: wait.NewBell()},
	}
	g.room = sync.NewCond(&g.mu)
	g.ending, g.end = context.WithCancel(context.Background())
	for _, t := range cfg.Topics {
		s, err := dds.NewTopic(ctx, g.p, t.Name, dds.EncodedAs("xcdr:"+t.Type.name, t.Type.payloads.Keyed()), t.QoS)
		if err != nil {
			return nil, err
		}
		g.topics = append(g.topics, &topic{Topic: t, space: s})
	}
	office, err := dds.NewTopic(ctx, g.p, officeTopic, dds.Raw(), dds.QoS{})
	if err != nil {
		return nil, err
	}
	_, _ = rand.Read(g.prefix[:]) // it never fails
	if g.office, err = office.Writer(ctx, dds.QoS{UserData: []byte(cfg.Side), GroupData: g.prefix[:]}); err != nil {
		return nil, err
	}
	if g.sockets, err = listen(&cfg); err != nil {
		return nil, errors.Join(err, g.office.Close(ctx))
	}
	g.begin()
	return g, nil
}

// now is the time of the machine: that since the beginning, by a clock that nothing sets.
func (g *Gateway) now() int64 { return int64(time.Since(g.begun)) + 1 }

func (g *Gateway) begin() {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it never fails
	space := marker + g.cfg.Space
	var multicast []wire.Locator
	if g.sockets.samples != nil {
		multicast = []wire.Locator{groupAddress(g.cfg.Domain, 1)}
	}
	g.machine = protocol.New(protocol.Config{
		Prefix: g.prefix, Domain: int32(g.cfg.Domain), Name: space, UserData: g.cfg.UserData, Lease: g.cfg.Lease, Secret: secret, Silent: g.cfg.ReaderTimeout,
		Metatraffic: []wire.Locator{local(g.sockets.meta)}, Default: []wire.Locator{local(g.sockets.data)}, Multicast: multicast, Announce: g.sockets.announce,
		Ignore: func(p *wire.Participant) bool {
			if p.Name != space {
				return false
			}
			g.namesake(p.Prefix)
			return true
		},
		Refuse: g.refuse,
	}, (*host)(g), g.now())
	g.run()
}

func (g *Gateway) run() {
	for _, t := range g.topics {
		if t.Direction&In != 0 {
			t.reader = g.machine.OpenReader(g.now(), t.requested(), t.Type.payloads.Keyed())
		}
	}
	for _, c := range g.sockets.all() {
		g.running.Go(func() { g.receive(c) })
	}
	g.running.Go(g.tick)
	g.running.Go(g.carry)
	g.running.Go(g.follow)
	for _, t := range g.topics {
		if t.Direction&Out != 0 {
			g.running.Go(func() { g.export(t) })
		}
	}
}

// Stats returns what the gateway did so far.
func (g *Gateway) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Active, s.Participants, s.Writers = g.election.appointed, g.machine.Peers(), len(g.intake.inbounds)
	return s
}

// Addr is where the gateway receives discovery.
func (g *Gateway) Addr() string { return local(g.sockets.meta).String() }

// Close ends the gateway, and tells the DDS programs so. What was not acknowledged to them is
// theirs, for another gateway.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	ended := g.ending.Err() != nil
	if !ended {
		g.machine.Close(g.now())
	}
	g.end()
	g.room.Broadcast()
	g.mu.Unlock()
	if ended {
		return nil
	}
	err := g.sockets.close()
	g.running.Wait()
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.intake.inbounds))
	for _, gone := range g.intake.leaving {
		all = append(all, gone...)
	}
	g.mu.Unlock()
	for _, b := range all {
		err = errors.Join(err, b.close(ctx))
	}
	return errors.Join(err, g.office.Close(ctx))
}

// settle sends what the machine has put together, and has it ticked in time. The lock is held.
func (g *Gateway) settle() {
	if g.machine.Due() <= g.now() {
		g.machine.Tick(g.now())
	}
	g.machine.Flush()
	if g.machine.Due() >= g.clock.next {
		return
	}
	g.clock.earlier.Ring()
}

func (g *Gateway) tick() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for g.ending.Err() == nil {
		select {
		case <-g.ending.Done():
			return
		case <-timer.C:
		case <-g.clock.earlier:
		}
		g.mu.Lock()
		now := g.now()
		if g.machine.Due() <= now {
			g.machine.Tick(now)
		}
		g.clock.next = g.machine.Due()
		wait := time.Duration(g.clock.next - now)
		g.mu.Unlock()
		timer.Reset(max(wait, 0))
	}
}

// messageBytes is the largest message of UDP.
const messageBytes = 1 << 16

func (g *Gateway) receive(c *net.UDPConn) {
	buf := make([]byte, messageBytes)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			if g.ending.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue // an answer of ICMP to what was sent
		}
		message := append([]byte(nil), buf[:n]...) // samples lie in it until they are in the order
		g.mu.Lock()
		if c == g.sockets.multicast || c == g.sockets.samples {
			g.stats.Multicast++
		}
		if err := g.machine.Receive(g.now(), unmapped(from), message); err != nil {
			g.stats.Malformed++
			g.log.Debug("a message was refused", "error", err)
		}
		g.settle()
		g.mu.Unlock()
	}
}

// host is the gateway as its machine sees it. The lock is held.
type host Gateway

func (h *host) Send(to wire.Locator, message []byte) {
	_, _ = h.sockets.data.WriteToUDPAddrPort(message, to) // a reliable writer sends lost messages again
}

func (h *host) Room(*protocol.Writer) { h.room.Broadcast() }

func (h *host) ReaderMatched(w *protocol.Writer, r wire.Endpoint) {
	h.stats.Readers++
	h.log.Info("a DDS reader matches", "topic", w.Endpoint.Topic, "reader", r.GUID)
}

func (h *host) ReaderGone(w *protocol.Writer, r wire.Endpoint) {
	h.stats.Readers--
	h.log.Info("a DDS reader is gone", "topic", w.Endpoint.Topic, "reader", r.GUID)
}

func (h *host) ReaderSilent(w *protocol.Writer, r wire.Endpoint) {
	h.stats.Silent++
	h.log.Warn("a DDS reader that does not answer blocks the topic no longer", "topic", w.Endpoint.Topic, "reader", r.GUID)
}

// At most so many reasons are logged, each with so many bytes.
const (
	reasons     = 10_000
	reasonBytes = 500
)

func (h *host) Incompatible(local, remote wire.Endpoint, why string, _ []qos.Policy) {
	why = why[:min(len(why), reasonBytes)] // it has names of the peer's choice
	key := remote.GUID.String() + why
	if h.told[key] || len(h.told) >= reasons {
		return
	}
	h.told[key] = true
	h.log.Warn("a DDS endpoint does not match", "topic", local.Topic, "endpoint", remote.GUID, "reason", why)
}

// namesake notes a participant with the name of a gateway of this space. Gateways of the space are
// known by their writers there, but perhaps later than by their first announcement. The lock is
// held.
func (g *Gateway) namesake(p wire.Prefix) {
	if g.others.gateways[p] || g.others.namesakes[p] == 0 && len(g.others.namesakes) >= reasons {
		return
	}
	if g.others.namesakes[p]++; g.others.namesakes[p] == 2 {
		g.log.Warn("a participant of DDS is ignored: it has the name of a gateway of this space, and is not known as one; spaces in one domain need different names there (Config.Space)",
			"participant", p, "space", g.cfg.Space)
	}
}

// elect elects the first gateway of each side as the active one, and finds out whether this one
// is.
func (g *Gateway) elect(all []dds.Endpoint) {
	gateways := map[wire.Prefix]bool{}
	var side []dds.ID
	for _, e := range all {
		if e.Topic != officeTopic || e.Reader {
			continue
		}
		if p := e.QoS.GroupData; len(p) == len(g.prefix) {
			gateways[wire.Prefix(p)] = true
		}
		if string(e.QoS.UserData) == g.cfg.Side {
			side = append(side, e.ID)
		}
	}
	first := len(side) == 0 || side[0] == g.office.ID()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.others.gateways = gateways
	if first == g.election.appointed {
		return
	}
	g.election.appointed = first
	close(g.election.changed)
	g.election.changed = make(chan struct{})
	g.log.Info("the gateway that carries is appointed", "here", first)
	g.beginArrivals()
	g.notify()
}

// beginArrivals begins anew with what is here: what the gateway before this one has carried is
// known by the order.
func (g *Gateway) beginArrivals() {
	g.intake.arrivals = slices.DeleteFunc(g.intake.arrivals, func(b *inbound) bool { return !b.gone })
	for _, b := range g.intake.arrivals {
		b.carried = 0
	}
	for _, b := range g.intake.inbounds {
		b.carried, b.queued, b.resting = 0, len(b.waiting) > 0, false
		if b.queued {
			g.intake.arrivals = append(g.intake.arrivals, b)
		}
	}
}

// notify has arrivals carried. The lock is held.
func (g *Gateway) notify() {
	g.intake.work.Ring()
}
