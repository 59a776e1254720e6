package rtps

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/errs"
)

// AnyIndex is a participant index that is chosen: the first one whose ports are free.
const AnyIndex = -1

// Direction is where the samples of a topic go.
type Direction uint8

// The directions.
const (
	In   Direction = 1 // from DDS into the space
	Out  Direction = 2 // from the space to DDS
	Both           = In | Out
)

func (d Direction) String() string {
	switch d {
	case In:
		return "in"
	case Out:
		return "out"
	case Both:
		return "both"
	}
	return fmt.Sprintf("direction %d", uint8(d))
}

// Topic is a topic that a gateway carries.
type Topic struct {
	Name      string // in the space
	DDSName   string // in DDS; empty is Name
	Type      *Type
	Direction Direction
	// QoS are the policies with which the topic is declared in the space. Its durability, ownership,
	// destination order and history are offered to DDS readers, and its reliability and ownership are
	// requested of DDS writers. History of a durable topic is requested as TRANSIENT_LOCAL.
	QoS dds.QoS
	// Partitions are requested of DDS writers; none is any.
	Partitions []string
	// PartitionsOut are offered to DDS readers; none is the partitions of each writer in the space.
	PartitionsOut []string
	// XCDR2 is how samples of Go programs in the space are encoded, which a DDS reader has to take;
	// without it XCDR1. Samples of DDS writers are taken in both.
	XCDR2 bool
}

func (t *Topic) ddsName() string {
	if t.DDSName != "" {
		return t.DDSName
	}
	return t.Name
}

// Config declares a gateway.
type Config struct {
	// Member is this process's part in the space. It outlives the gateway.
	Member *member.Member
	// Side names the domain for the gateways of the space: those with one side stand in for each
	// other. Empty is "domain n".
	Side string
	// Space names the space in DDS: gateways of one name do not carry what the others of them do.
	// Empty is the name of its subgroup.
	Space  string
	Domain int
	// Interface is the name or the address of the interface: only its address is listened at.
	Interface string
	Index     int // of the participant, which its ports follow from, or AnyIndex
	// Multicast has participants found by multicast, besides those at Peers. The interface must be
	// able to.
	Multicast bool
	// Peers are addresses at which participants are looked for: HOST for the first ten participants of
	// a host, HOST:PORT for one participant. An empty list without Multicast is the address of
	// Interface.
	Peers []string
	// Lease is the liveliness lease that the gateway's writers offer; a participant of DDS that
	// receives nothing for 7/8 of it forgets the gateway. 0 is 10 s.
	Lease time.Duration
	// ReaderTimeout is how long a reliable DDS reader may leave the gateway without an answer; then it
	// loses samples, and does not block its topic any more. When it answers again it matches again. 0
	// is a minute.
	ReaderTimeout time.Duration
	// UserData are the USER_DATA of the gateway as a participant of DDS, for programs that look at
	// them.
	UserData []byte
	Topics   []Topic
	Logger   *slog.Logger // nil is slog.Default
}

func (c *Config) validate() error {
	faults := errs.Faults{Prefix: "rtps: "}
	faults.If(c.Member == nil, "a gateway needs a member of the space")
	faults.If(c.Domain < 0 || c.Domain > lastDomain, "domain %d is not from 0 to %d", c.Domain, lastDomain)
	faults.If(c.Index < AnyIndex || c.Index > 119, "participant index %d", c.Index)
	if n := len(c.UserData) + len(c.Space); n > maxNameBytes {
		faults.Add("user data and the name of the space have %d bytes: at most %d", n, maxNameBytes)
	}
	faults.If(strings.Contains(c.Side+c.Space, "\n"), "the names of the side and the space have one line each")
	faults.If(len(c.Topics) == 0, "no topics: a gateway carries the topics that its configuration names")
	c.checkTopics(&faults)
	return faults.Err()
}

func (c *Config) checkTopics(faults *errs.Faults) {
	seen, in := map[string]bool{}, map[string]bool{}
	for i := range c.Topics {
		t := &c.Topics[i]
		switch {
		case t.Name == "" || t.Type == nil:
			faults.Add("topic %q has no type", t.Name)
		case t.Direction == 0 || t.Direction > Both:
			faults.Add("topic %q: %v", t.Name, t.Direction)
		case seen[t.Name]:
			faults.Add("topic %q is there twice", t.Name)
		}
		seen[t.Name] = true
		if t.Type != nil {
			reader, writer := t.requested(), t.offered(&dds.QoS{}, c.Lease)
			for _, err := range []error{reader.Check(), writer.Check()} {
				faults.If(err != nil, "topic %q: %w", t.Name, err)
			}
		}
		if t.Direction&In != 0 {
			if in[t.ddsName()] { // the numbers of its samples are remembered by their writer
				faults.Add("topic %q: %q of DDS comes into two topics", t.Name, t.ddsName())
			}
			in[t.ddsName()] = true
		}
		faults.If(t.QoS.Presentation != (qos.Presentation{}), "topic %q: PRESENTATION is not carried", t.Name)
	}
}

// maxNameBytes is what fits into the announcement of a participant, which is one message.
const maxNameBytes = 32 << 10

// requested is what the gateway's reader of a topic says in DDS.
func (t *Topic) requested() wire.Endpoint {
	e := wire.Endpoint{Topic: t.ddsName(), Type: t.Type.name, Representations: []int16{wire.XCDR1, wire.XCDR2}}
	e.QoS = qos.Set{
		Reliability: t.QoS.Reliability, Ownership: t.QoS.Ownership, History: qos.KeepAll(), Durability: min(t.QoS.Durability, qos.TransientLocal),
		Partitions: t.Partitions, TopicData: t.QoS.TopicData,
	}
	if len(e.QoS.Partitions) == 0 {
		e.QoS.Partitions = []string{"*", ""} // the name of a writer without partitions is the empty one, which Fast DDS takes for none that "*" matches
	}
	return e
}

// offered is what a writer of the gateway says in DDS for a writer of the space.
func (t *Topic) offered(w *dds.QoS, lease time.Duration) wire.Endpoint {
	e := wire.Endpoint{Topic: t.ddsName(), Type: t.Type.name, Representations: []int16{wire.XCDR1}}
	if t.XCDR2 {
		e.Representations[0] = wire.XCDR2
	}
	e.QoS = qos.Set{
		Durability: t.QoS.Durability, Service: t.QoS.Service, Ownership: t.QoS.Ownership, Order: t.QoS.Order, History: qos.KeepAll(), TopicData: t.QoS.TopicData,
		Presentation: qos.Presentation{Access: qos.TopicScope, Ordered: true}, Liveliness: qos.Liveliness{Lease: lease},
		Deadline: w.Deadline, LatencyBudget: w.LatencyBudget, Lifespan: w.Lifespan, Strength: w.Strength, Partitions: w.Partitions, UserData: w.UserData, GroupData: w.GroupData,
	}
	if len(t.PartitionsOut) > 0 {
		e.QoS.Partitions = t.PartitionsOut
	}
	if e.QoS.Durability > qos.Volatile && e.QoS.Service.History.All && e.QoS.Service.Limits.Samples == 0 {
		e.QoS.Service.Limits.Samples = historySamples
	}
	return e
}

// historySamples bounds the history that a gateway offers of a topic that keeps everything.
const historySamples = 10_000

// standIn is the policies of the writer in the space that stands for a DDS writer.
func (t *Topic) standIn(w *wire.Endpoint) dds.QoS {
	return dds.QoS{
		Durability: t.QoS.Durability, Ownership: t.QoS.Ownership, Order: t.QoS.Order, Strength: w.QoS.Strength, Partitions: w.QoS.Partitions,
		Deadline: w.QoS.Deadline, LatencyBudget: w.QoS.LatencyBudget, Lifespan: w.QoS.Lifespan, UserData: w.QoS.UserData, GroupData: w.QoS.GroupData,
		KeepUnregistered: true, // a DDS writer disposes of its instances itself
	}
}
