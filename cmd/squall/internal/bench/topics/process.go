package topics

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	goatomic "sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	ddsmember "github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/persist/wal"
	"github.com/squall-go/squall/ripc"
)

// Workload is what the processes of "squall bench dds" do.
var Workload = bench.NewWorkload("dds", open)

// Requests.
const (
	opOpen    = "open"    // topics, readers and writers
	opMeasure = "measure" // a sample of a window
	opServe   = "serve"   // the address of a relay
	opDial    = "dial"    // a relay
	opHangUp  = "hang up" // the end of a client
)

func open(p bench.Process[spec]) (bench.Member, error) { return newMember(p), nil }

// member is a process with a writer, which is node 1, or with a reader.
type member struct {
	bench.Process[spec]
	*bench.Group
	participant *dds.Participant  // once it is open
	inside      *ddsmember.Member // nil: this process is a client
	load        load
	heard, lost goatomic.Uint64 // samples
	addrs       []string        // where members listen that have bootstrapped the group
	relay       *ddsmember.Relay
}

// load is what a process does once its topics are there.
type load interface {
	// open opens the writer or the reader, and idle ones of other topics.
	open(ctx context.Context) error
	// run runs until ctx ends, at node 1.
	run(ctx context.Context) error
	latency() bench.Latency
}

// historyDepth is how many samples of a transient topic are kept. Rings of historyRingBytes have
// room for that many of 10 KiB.
const (
	historyDepth     = 1000
	historyRingBytes = 16 << 20
)

func newMember(j bench.Process[spec]) *member {
	s := j.Spec
	id := j.Node
	if s.outside() == 1 {
		id--
	}
	m := &member{Process: j, Group: bench.NewGroup(id, s.members(), s.Fabric)}
	cfg := ddsmember.Config{Subgroup: squall.SubgroupConfig{Name: "space", RingBytes: s.RingBytes}}
	switch s.Level {
	case unordered:
		cfg.Unordered.Name, cfg.Unordered.RingBytes = "loose", s.RingBytes
	case persistent, durable:
		cfg.Subgroup.Mode, cfg.Subgroup.Log.Engine, m.Config.Dir = squall.Persistent, wal.Engine, j.Dir
	}
	if s.Plain {
		m.Config.Ablate(extension.Tuning{OneSend: true, OneReceive: true, OneDeliver: true})
	}
	if s.Level == durable {
		cfg.Subgroup.DeliverBatch = func(all []squall.Message) { m.heard.Add(uint64(len(all))) }
		m.Config.Subgroups = []squall.SubgroupConfig{cfg.Subgroup}
		return m
	}
	m.Opener = func(ctx context.Context, c squall.Config) (_ *squall.Group, err error) {
		cfg.Group = c
		if m.inside, err = ddsmember.Open(ctx, cfg); err != nil {
			return nil, err
		}
		m.participant = m.inside.Participant
		return m.inside.Group(), nil
	}
	return m
}

// Listen begins to open the group, at its first member.
func (m *member) Listen(ctx context.Context) (string, error) {
	if m.Node == m.Spec.outside() {
		return "", nil
	}
	return m.Group.Listen(ctx)
}

// Connect waits until all members are in the group.
func (m *member) Connect(ctx context.Context, addrs []string) error {
	m.addrs = slices.DeleteFunc(addrs, func(a string) bool { return a == "" })
	if m.Node == m.Spec.outside() {
		return nil
	}
	return m.Group.Connect(ctx, m.addrs)
}

// serve begins to serve clients, and returns where.
func (m *member) serve(ctx context.Context) (addr string, err error) {
	cfg := ddsmember.RelayConfig{Member: m.inside, Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}
	if m.Spec.Fabric == "tcp" {
		cfg.Endpoint.Transport = ripc.TransportTCP
	}
	if m.relay, err = ddsmember.Serve(ctx, cfg); err != nil {
		return "", err
	}
	return m.relay.Addr(), nil
}

func (m *member) dial(ctx context.Context, r bench.Request) (err error) {
	cfg := dds.ClientConfig{Cluster: bench.Cluster, Space: "space", Addresses: make([]string, 1)}
	if err := r.Into(&cfg.Addresses[0]); err != nil {
		return err
	}
	if m.Spec.Fabric == "tcp" {
		cfg.Endpoint.Transport = ripc.TransportTCP
	}
	m.participant, err = dds.Dial(ctx, cfg)
	return err
}

func (m *member) Answer(ctx context.Context, r bench.Request) (any, error) {
	switch r.Op {
	case opOpen:
		switch {
		case m.Spec.Level == durable:
			m.load = &records{m}
		case m.Spec.History > 0:
			m.load = &late{member: m}
		case m.Spec.Trips:
			m.load = newTrips(m)
		case m.Spec.Codec == "xcdr":
			codec, err := dds.XCDR[keyedSeq](cdr.XCDR1)
			if err != nil {
				return nil, err
			}
			m.load = &stream[keyedSeq]{member: m, codec: codec, next: m.nextKeyed(), indexOf: func(v *keyedSeq) uint64 { return uint64(v.Seq) }}
		default:
			m.load = &stream[[]byte]{member: m, codec: dds.Raw(), next: m.nextRaw(), indexOf: func(v *[]byte) uint64 { return binary.LittleEndian.Uint64(*v) }}
		}
		return nil, m.load.open(ctx)
	case opMeasure:
		if l, ok := m.load.(*late); ok && m.Node > 1 {
			return l.measure(ctx, r)
		}
		return m.measure(ctx, r)
	case opServe:
		return m.serve(ctx)
	case opDial:
		return nil, m.dial(ctx, r)
	case opHangUp:
		return nil, m.Close()
	}
	return nil, r.Unknown()
}

// keyedSeq is the default type of ddsperf.
type keyedSeq struct {
	Seq     uint32
	Keyval  uint32 `dds:"key"`
	Baggage []byte
}

// nextKeyed returns samples of ddsperf's type with a size in bytes, of which 12 are not baggage.
func (m *member) nextKeyed() func(index uint64) keyedSeq {
	v := keyedSeq{Baggage: make([]byte, max(0, m.Spec.SizeBytes-12))}
	return func(index uint64) keyedSeq {
		v.Seq = uint32(index)
		return v
	}
}

func (m *member) nextRaw() func(index uint64) []byte {
	b := make([]byte, m.Spec.SizeBytes)
	return func(index uint64) []byte {
		binary.LittleEndian.PutUint64(b, index)
		return b
	}
}

// policies returns the policies of a level: for the topic, its writers and its readers.
func (m *member) policies() (topic, writer, reader dds.QoS) {
	reader.History = qos.KeepAll()
	reader.Limits.Samples = 10_000
	switch m.Spec.Level {
	case unordered:
		writer.Reliability.Kind, reader.Reliability.Kind = qos.BestEffort, qos.BestEffort
	case transient:
		topic.Durability, writer.Durability = qos.Transient, qos.Transient
		topic.Service.History = qos.KeepLast(historyDepth)
	case persistent:
		topic.Durability, writer.Durability = qos.Persistent, qos.Persistent
	}
	return topic, writer, reader
}

func (m *member) measure(ctx context.Context, r bench.Request) (s sample, err error) {
	end := func() error { return nil }
	if m.Node == 1 {
		inner, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- m.load.run(inner) }()
		end = func() error {
			cancel()
			return <-done
		}
	}
	s, err = m.observe(ctx, r)
	err = errors.Join(err, end())
	s.Latency = m.load.latency()
	return s, err
}

func (m *member) observe(ctx context.Context, r bench.Request) (sample, error) {
	grown, usage, err := bench.Observe(ctx, r, func() []uint64 { return []uint64{m.heard.Load(), m.lost.Load()} })
	if err = errors.Join(err, m.Failure()); err != nil {
		return sample{}, err
	}
	return sample{Usage: usage, Done: float64(grown[0]), Lost: float64(grown[1])}, nil
}

// Close ends the participant, and with it the group or the client.
func (m *member) Close() (err error) {
	if m.relay != nil {
		err = m.relay.Close()
	}
	p := m.participant
	m.participant = nil
	if p == nil {
		return errors.Join(err, m.Group.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, p.Close(ctx))
}
