package wire

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

// BuiltinEndpoints are the endpoints of discovery and liveliness of a participant of this version:
// participants, publications, subscriptions and liveliness, a writer and a reader of each.
const BuiltinEndpoints uint32 = 0xc3f

// Bits of the endpoints of discovery.
const (
	HasPublicationsWriter  uint32 = 1 << 2
	HasPublicationsReader  uint32 = 1 << 3
	HasSubscriptionsWriter uint32 = 1 << 4
	HasSubscriptionsReader uint32 = 1 << 5
	HasLivelinessWriter    uint32 = 1 << 10
	HasLivelinessReader    uint32 = 1 << 11
)

// Participant is what a participant says of itself.
type Participant struct {
	Prefix               Prefix
	Lease                time.Duration
	Builtin              uint32
	Domain               int32 // -1: not told
	Name                 string
	UserData             []byte
	Metatraffic, Default []Locator // unicast
	Multicast            []Locator // of samples
	Vendor               [2]byte
}

// defaultLease is the lease of a participant that tells none.
const defaultLease = 100 * time.Second

// ParseParticipant reads the payload of a participant's announcement.
func ParseParticipant(payload []byte) (p Participant, err error) {
	list, err := open(payload)
	if err != nil {
		return p, err
	}
	p.Lease, p.Domain = defaultLease, -1
	var guid GUID
	err = list.each(func(id ParameterID, v *value) bool {
		switch id {
		case pidParticipantGUID:
			guid = v.guid()
		case pidLease:
			p.Lease = v.duration()
		case pidBuiltinEndpoints:
			p.Builtin = v.u32()
		case pidDomain:
			p.Domain = int32(v.u32())
		case pidEntityName:
			p.Name = v.text()
		case pidUserData:
			p.UserData = v.bytes()
		case pidMetatrafficUnicast:
			p.Metatraffic = v.locators(p.Metatraffic)
		case pidDefaultUnicast:
			p.Default = v.locators(p.Default)
		case pidVendor:
			p.Vendor = [2]byte{v.u8(), v.u8()}
		case pidDefaultMulticast:
			p.Multicast = v.locators(p.Multicast)
		case pidProtocolVersion, pidMetatrafficMulticast, pidExpectsInline:
		default:
			return false
		}
		return true
	})
	if err == nil && (guid.Entity != ParticipantEntity || p.Lease <= 0) {
		err = fmt.Errorf("%w: a participant %v with a lease of %v", ErrMalformed, guid, p.Lease)
	}
	p.Prefix = guid.Prefix
	return p, err
}

// maxLocators bounds the locators that are remembered of a participant.
const maxLocators = 16

func (v *value) locators(to []Locator) []Locator {
	if l, ok := v.locator(); ok && len(to) < maxLocators {
		to = append(to, l)
	}
	return to
}

// Append appends the payload of the announcement.
func (p *Participant) Append(dst []byte) []byte {
	l := newList(dst)
	l.add(pidProtocolVersion, func() { l.buf = append(l.buf, version[4:6]...) })
	l.add(pidVendor, func() { l.buf = append(l.buf, version[6:8]...) })
	l.addGUID(pidParticipantGUID, GUID{p.Prefix, ParticipantEntity})
	l.addU32(pidBuiltinEndpoints, p.Builtin)
	if p.Domain >= 0 {
		l.addU32(pidDomain, uint32(p.Domain))
	}
	l.add(pidLease, func() { l.duration(p.Lease) })
	l.addLocators(pidMetatrafficUnicast, p.Metatraffic)
	l.addLocators(pidDefaultUnicast, p.Default)
	l.addLocators(pidDefaultMulticast, p.Multicast)
	if p.Name != "" {
		l.addText(pidEntityName, p.Name)
	}
	if len(p.UserData) > 0 {
		l.addBytes(pidUserData, p.UserData)
	}
	return l.end()
}

// AppendParticipantKey appends the key of an announcement, for a participant that ends.
func AppendParticipantKey(dst []byte, p Prefix) []byte {
	l := newList(dst)
	l.addGUID(pidParticipantGUID, GUID{p, ParticipantEntity})
	return l.end()
}

// Endpoint is what a participant says of one of its writers or readers.
type Endpoint struct {
	GUID            GUID
	Topic, Type     string
	QoS             qos.Set
	Representations []int16 // data representations (XTypes 7.6.3.1.1): a writer uses the first of its list, a reader accepts each of its list; an empty list is XCDR1
	Unicast         []Locator
	ExpectsInline   bool // a reader that asks for its policies with each sample
	// Way is where the samples of a gateway's writer have been, one name on a line, the last one
	// first: a space, then, if a sample came into that space, the side and the space before it, and so
	// on. It is empty for other writers.
	Way string
}

// Memory is an estimate of the bytes of memory that the endpoint takes.
func (e *Endpoint) Memory() int {
	const self, text = 1024, 16
	s := &e.QoS
	n := self + len(e.Topic) + len(e.Type) + len(e.Way) + 2*cap(e.Representations) + 32*cap(e.Unicast) + cap(s.UserData) + cap(s.TopicData) + cap(s.GroupData) + text*cap(s.Partitions)
	for _, p := range s.Partitions {
		n += (len(p) + 15) &^ 15
	}
	return n
}

// wayMarker begins the value of pidWay, whose number other vendors may use for parameters of their
// own.
const wayMarker = "squall-way:"

// Values of a representation.
const (
	XCDR1 int16 = 0
	XCDR2 int16 = 2
)

func (v *value) way() string {
	way, ok := strings.CutPrefix(string(v.b), wayMarker)
	if !ok {
		return ""
	}
	return strings.TrimRight(way, "\x00")
}

func (v *value) representations() (all []int16) {
	n := int(v.u32())
	if n < 0 || n > len(v.b)/2 {
		v.bad = true
		return nil
	}
	for range n {
		all = append(all, int16(v.u16()))
	}
	return all
}

// ParseEndpoint reads the payload that announces a writer or a reader.
func ParseEndpoint(payload []byte, reader bool) (e Endpoint, err error) {
	list, err := open(payload)
	if err != nil {
		return e, err
	}
	if reader { // the default of DDS
		e.QoS.Reliability.Kind = qos.BestEffort
	}
	err = list.each(func(id ParameterID, v *value) bool {
		switch id {
		case pidEndpointGUID:
			e.GUID = v.guid()
		case pidTopicName:
			e.Topic = v.text()
		case pidTypeName:
			e.Type = v.text()
		case pidUnicast:
			e.Unicast = v.locators(e.Unicast)
		case pidExpectsInline:
			e.ExpectsInline = v.u8() != 0
		case pidRepresentation:
			e.Representations = v.representations()
		case pidWay:
			e.Way = cmp.Or(v.way(), e.Way)
		case pidParticipantGUID, pidMulticast, pidProtocolVersion, pidVendor, pidKeyHash, pidEntityName, pidStatus:
		default:
			return e.policy(id, v)
		}
		return true
	})
	if err == nil && (e.Topic == "" || e.Type == "" || reader && !e.GUID.Entity.IsReader() || !reader && !e.GUID.Entity.IsWriter()) {
		err = fmt.Errorf("%w: an endpoint %v of topic %q with type %q", ErrMalformed, e.GUID, e.Topic, e.Type)
	}
	return e, err
}

// finite is a duration of which 0 has the meaning of none.
func finite(d time.Duration) time.Duration {
	switch d {
	case Infinite:
		return 0
	case 0:
		return 1
	}
	return d
}

// unlimited is a limit of which 0 has the meaning of none.
func unlimited(n uint32) int { return int(max(int32(n), 0)) }

func (v *value) history() (h qos.History) {
	kind, depth := v.u32(), int32(v.u32())
	switch {
	case kind == 1:
		return qos.KeepAll()
	case kind != 0 || depth < 1:
		v.bad = true
	}
	return qos.KeepLast(int(depth))
}

// kind reads a kind of a policy, and refuses values above the highest kind.
func (v *value) kind(highest uint32) uint8 {
	k := v.u32()
	if k > highest {
		v.bad = true
		return 0
	}
	return uint8(k)
}

// policy reads a policy into the set. It returns false for a parameter that it does not know.
func (e *Endpoint) policy(id ParameterID, v *value) bool {
	s := &e.QoS
	switch id {
	case pidReliability:
		s.Reliability.Kind = qos.Reliable
		if k := v.u32(); k == 1 {
			s.Reliability.Kind = qos.BestEffort
		} else if k != 2 {
			v.bad = true
		}
		s.Reliability.MaxBlocking = finite(v.duration())
	case pidDurability:
		s.Durability = qos.Durability(v.kind(uint32(qos.Persistent)))
	case pidDurabilityService:
		s.Service.CleanupDelay = v.duration()
		s.Service.History = v.history()
		s.Service.Limits = qos.Limits{Samples: unlimited(v.u32()), Instances: unlimited(v.u32()), SamplesPerInstance: unlimited(v.u32())}
	case pidLiveliness:
		s.Liveliness.Kind = qos.LivelinessKind(v.kind(uint32(qos.ManualByTopic)))
		s.Liveliness.Lease = finite(v.duration())
	case pidOwnership:
		s.Ownership = qos.Ownership(v.kind(uint32(qos.Exclusive)))
	case pidStrength:
		s.Strength = int32(v.u32())
	case pidPresentation:
		s.Presentation.Access = qos.Scope(v.kind(uint32(qos.GroupScope)))
		s.Presentation.Coherent, s.Presentation.Ordered = v.u8() != 0, v.u8() != 0
	case pidDeadline:
		s.Deadline = finite(v.duration())
	case pidLatencyBudget:
		s.LatencyBudget = v.duration()
	case pidLifespan:
		s.Lifespan = finite(v.duration())
	case pidSeparation:
		s.Separation = v.duration()
	case pidDestinationOrder:
		s.Order = qos.DestinationOrder(v.kind(uint32(qos.BySource)))
	case pidPartition:
		s.Partitions = v.texts()
	case pidUserData:
		s.UserData = v.bytes()
	case pidGroupData:
		s.GroupData = v.bytes()
	case pidTopicData:
		s.TopicData = v.bytes()
	case pidHistory:
		s.History = v.history()
	case pidResourceLimits:
		s.Limits = qos.Limits{Samples: unlimited(v.u32()), Instances: unlimited(v.u32()), SamplesPerInstance: unlimited(v.u32())}
	default:
		return false
	}
	return true
}

func infinite(d time.Duration) time.Duration {
	if d == 0 {
		return Infinite
	}
	return d
}

func (l *list) limits(m qos.Limits) {
	for _, n := range []int{m.Samples, m.Instances, m.SamplesPerInstance} {
		if n <= 0 || n > math.MaxInt32 {
			n = -1
		}
		l.u32(uint32(int32(n)))
	}
}

func (l *list) history(h qos.History) {
	if h.All {
		l.u32(1)
		l.u32(math.MaxUint32) // unlimited
		return
	}
	l.u32(0)
	l.u32(uint32(max(h.Depth, 1)))
}

// AnnouncementBytes is the size of the largest announcement of an endpoint. All parameters of a
// smaller one have a length that its field can say.
const AnnouncementBytes = math.MaxUint16

// Check returns an error if the announcement of the endpoint is too large.
func (e *Endpoint) Check() error {
	if n := len(e.Append(nil)); n > AnnouncementBytes {
		return fmt.Errorf("an announcement of %d bytes, with the names, partitions and data of an endpoint: at most %d", n, AnnouncementBytes)
	}
	return nil
}

func (l *list) addDuration(id ParameterID, d time.Duration) { l.add(id, func() { l.duration(d) }) }

// Append appends the payload that announces a writer or a reader, for which Check has no error.
func (e *Endpoint) Append(dst []byte) []byte {
	l, s := newList(dst), &e.QoS
	l.addGUID(pidEndpointGUID, e.GUID)
	l.addGUID(pidParticipantGUID, GUID{e.GUID.Prefix, ParticipantEntity})
	l.addText(pidTopicName, e.Topic)
	l.addText(pidTypeName, e.Type)
	l.addLocators(pidUnicast, e.Unicast)
	if e.Way != "" {
		l.add(pidWay, func() { l.buf = append(l.buf, wayMarker+e.Way...) })
	}
	l.policies(s)
	if e.GUID.Entity.IsWriter() {
		l.addDuration(pidLifespan, infinite(s.Lifespan))
		l.addU32(pidStrength, uint32(s.Strength))
		l.add(pidDurabilityService, func() {
			l.duration(s.Service.CleanupDelay)
			l.history(s.Service.History)
			l.limits(s.Service.Limits)
		})
	} else {
		l.addDuration(pidSeparation, s.Separation)
	}
	if len(e.Representations) > 0 {
		l.add(pidRepresentation, func() {
			l.u32(uint32(len(e.Representations)))
			for _, r := range e.Representations {
				l.buf = binary.LittleEndian.AppendUint16(l.buf, uint16(r))
			}
		})
	}
	return l.end()
}

func (l *list) texts(all []string) {
	l.u32(uint32(len(all)))
	for _, t := range all {
		for len(l.buf)&3 != 0 {
			l.buf = append(l.buf, 0)
		}
		l.text(t)
	}
}

// policies adds the policies that writers and readers have.
func (l *list) policies(s *qos.Set) {
	l.add(pidReliability, func() {
		kind := uint32(2)
		if s.Reliability.Kind == qos.BestEffort {
			kind = 1
		}
		l.u32(kind)
		l.duration(infinite(s.Reliability.MaxBlocking))
	})
	l.addU32(pidDurability, uint32(s.Durability))
	l.add(pidLiveliness, func() {
		l.u32(uint32(s.Liveliness.Kind))
		l.duration(infinite(s.Liveliness.Lease))
	})
	l.addU32(pidOwnership, uint32(s.Ownership))
	l.add(pidPresentation, func() {
		l.u32(uint32(s.Presentation.Access))
		l.buf = append(l.buf, b2u(s.Presentation.Coherent), b2u(s.Presentation.Ordered))
	})
	l.addDuration(pidDeadline, infinite(s.Deadline))
	l.addDuration(pidLatencyBudget, s.LatencyBudget)
	l.addU32(pidDestinationOrder, uint32(s.Order))
	if len(s.Partitions) > 0 {
		l.add(pidPartition, func() { l.texts(s.Partitions) })
	}
	for _, d := range []struct {
		id ParameterID
		b  []byte
	}{{pidUserData, s.UserData}, {pidGroupData, s.GroupData}, {pidTopicData, s.TopicData}} {
		if len(d.b) > 0 {
			l.addBytes(d.id, d.b)
		}
	}
	l.add(pidHistory, func() { l.history(s.History) })
	l.add(pidResourceLimits, func() { l.limits(s.Limits) })
}

func b2u(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// AppendEndpointKey appends the key of an announcement, for an endpoint that ends.
func AppendEndpointKey(dst []byte, g GUID) []byte {
	l := newList(dst)
	l.addGUID(pidEndpointGUID, g)
	return l.end()
}

// ParseKey reads the GUID of a participant or an endpoint that ends.
func ParseKey(payload []byte) (g GUID, err error) {
	list, err := open(payload)
	if err != nil {
		return g, err
	}
	err = list.each(func(id ParameterID, v *value) bool {
		if id == pidParticipantGUID || id == pidEndpointGUID {
			g = v.guid()
			return true
		}
		return false
	})
	if err == nil && g == (GUID{}) {
		err = fmt.Errorf("%w: no key", ErrMalformed)
	}
	return g, err
}

// AppendLiveliness appends the payload by which a participant asserts that its writers are alive.
func AppendLiveliness(dst []byte, p Prefix) []byte {
	dst = append(dst, 0, 1, 0, 0)
	dst = append(dst, p[:]...)
	dst = append(dst, 0, 0, 0, 1) // automatic
	return append(dst, 0, 0, 0, 0)
}
