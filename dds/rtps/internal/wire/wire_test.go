package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

var (
	somewhere = netip.MustParseAddrPort("10.1.2.3:7411")
	someone   = Prefix{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
)

// message returns the submessages of a message, which are decoded as they come.
func message(t *testing.T, b []byte) (all []Submessage) {
	t.Helper()
	d, err := NewDecoder(b)
	if err != nil {
		t.Fatal(err)
	}
	for {
		s, ok, err := d.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all = append(all, s)
	}
}

func same[T any](t *testing.T, got, want T, err error) {
	t.Helper()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("decoded %+v (%v), and not %+v", got, err, want)
	}
}

func TestSubmessagesAreDecodedAsTheyWereAppended(t *testing.T) {
	missing := Numbers{Base: 1 << 33}
	for _, n := range []int64{0, 31, 32, 255} {
		if !missing.Add(missing.Base + n) {
			t.Fatalf("number %d is too far", n)
		}
	}
	if missing.Add(missing.Base+256) || missing.Add(missing.Base-1) {
		t.Fatal("a number outside of the set was added")
	}
	w, r := Writer(7, true), Reader(0x010203, false)
	heartbeat := Heartbeat{Reader: r, Writer: w, First: 3, Last: 1 << 40, Count: 9, Final: true}
	answer := AckNack{Reader: r, Writer: w, Missing: missing, Count: 5}
	fragments := NackFrag{Reader: r, Writer: w, Sequence: 6, Missing: Numbers{Base: 2, N: 3, Bits: [8]uint32{5 << 29}}, Count: 1}
	body := []byte("\x00\x01\x00\x00sample..")
	big := bytes.Repeat([]byte("0123456789abcdef"), 100)

	var a Appender
	a.Reset(someone)
	a.Target(someone)
	a.InfoTime(1_700_000_000_123_456_789)
	a.Data(r, w, 1<<35, 0, body)
	a.Data(r, w, 2, Disposed|Unregistered, body)
	a.DataFrag(r, w, 3, 0, big, 2, 1000)
	a.Heartbeat(heartbeat)
	a.AckNack(answer)
	a.Gap(r, w, 4, 9)
	a.NackFrag(fragments)
	all := message(t, a.Bytes())

	target, err := all[0].Target()
	same(t, target, someone, err)
	at, ok, err := all[1].InfoTime()
	same(t, at, 1_700_000_000_123_456_789, err)
	same(t, ok, true, nil)
	d, err := all[2].Data()
	same(t, []any{d.Reader, d.Writer, d.Sequence, d.Payload, d.IsKey}, []any{r, w, int64(1 << 35), body, false}, err)
	d, err = all[3].Data()
	same(t, []any{d.Payload, d.IsKey}, []any{body, true}, err)
	status, _, err := d.Change()
	same(t, status, Disposed|Unregistered, err)
	d, err = all[4].DataFrag()
	same(t, []any{d.Payload, d.Fragment, d.Fragments, d.FragmentBytes, d.SampleBytes}, []any{big[1000:], uint32(2), 1, 1000, 1600}, err)
	h, err := all[5].Heartbeat()
	same(t, h, heartbeat, err)
	k, err := all[6].AckNack()
	same(t, k, answer, err)
	g, err := all[7].Gap()
	same(t, g, Gap{Reader: r, Writer: w, Start: 4, Numbers: Numbers{Base: 9}}, err)
	n, err := all[8].NackFrag()
	same(t, n, fragments, err)
	for i := int64(-2); i < 260; i++ {
		if want := i == 0 || i == 31 || i == 32 || i == 255; k.Missing.Has(k.Missing.Base+i) != want {
			t.Fatalf("number %d: %v", i, !want)
		}
	}
}

// A message of another implementation: big endian, with padding, an unknown submessage, inline QoS
// with a vendor's parameter, and a last submessage without a length.
func TestAMessageInBigEndian(t *testing.T) {
	var b []byte
	b = append(b, 'R', 'T', 'P', 'S', 2, 4, 1, 99)
	b = append(b, someone[:]...)
	sub := func(kind Kind, flags byte, length int, body ...byte) {
		b = append(b, byte(kind), flags)
		b = binary.BigEndian.AppendUint16(b, uint16(length))
		b = append(b, body...)
	}
	sub(KindPad, 0, 0)
	sub(0x77, 0, 4, 1, 2, 3, 4)
	sub(KindInfoReply, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0)
	sub(KindInfoTime, 0, 8, 0, 0, 0, 1, 0x80, 0, 0, 0)
	sub(KindInfoTime, 2, 0)
	w, r := Writer(1, true), Unknown
	data := []byte{0, 0, 0, 16}
	data = append(append(data, r[:]...), w[:]...)
	data = append(data, 0, 0, 0, 0, 0, 0, 0, 5)
	data = append(data, 0x80, 0x15, 0, 4, 9, 9, 9, 9, 0, byte(pidStatus), 0, 4, 0, 0, 0, 2, 0, byte(pidSentinel), 0, 0)
	data = append(data, 0, 1, 0, 0, 7, 0, 0, 0)
	sub(KindData, 2|8, 0, data...)
	all := message(t, b)
	if len(all) != 6 {
		t.Fatalf("%d submessages", len(all))
	}
	at, _, err := all[3].InfoTime()
	same(t, at, int64(1_500_000_000), err)
	_, ok, err := all[4].InfoTime()
	same(t, ok, false, err)
	d, err := all[5].Data()
	same(t, []any{d.Sequence, d.IsKey, d.Payload}, []any{int64(5), true, []byte{0, 1, 0, 0, 7, 0, 0, 0}}, err)
	status, _, err := d.Change()
	same(t, status, Unregistered, err)
}

func TestAnInvalidTimeIsNoTime(t *testing.T) {
	s := Submessage{Kind: KindInfoTime, Order: binary.LittleEndian, Body: bytes.Repeat([]byte{0xff}, 8)}
	if at, ok, err := s.InfoTime(); ok || err != nil {
		t.Errorf("TIME_INVALID is the time %d, %v", at, err)
	}
	s.Body[0] = 0xfe
	if _, ok, err := s.InfoTime(); !ok || err != nil {
		t.Errorf("the largest time is none: %v", err)
	}
}

func TestTimesKeepTheirBits(t *testing.T) {
	for _, fraction := range []uint32{0, 1, 5, 1 << 31, math.MaxUint32 - 4} {
		ns := TimeOf(1000, fraction)
		s, f := timeParts(ns)
		if again := TimeOf(s, f); again != ns {
			t.Errorf("%d ns become %d", ns, again)
		}
	}
}

func TestDiscoveryIsParsedAsItWasAppended(t *testing.T) {
	p := Participant{
		Prefix: someone, Lease: 10 * time.Second, Builtin: BuiltinEndpoints, Domain: 3, Name: "a gateway", UserData: []byte("data"),
		Metatraffic: []Locator{somewhere}, Default: []Locator{somewhere, somewhere}, Multicast: []Locator{somewhere},
	}
	got, err := ParseParticipant(p.Append(nil))
	same(t, got, p, err)
	g, err := ParseKey(AppendParticipantKey(nil, someone))
	same(t, g, GUID{someone, ParticipantEntity}, err)
	set := qos.Set{
		Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(3), Limits: qos.Limits{Samples: 5}, CleanupDelay: time.Second},
		Presentation: qos.Presentation{Access: qos.TopicScope, Ordered: true}, Deadline: time.Second, LatencyBudget: time.Millisecond, Lifespan: time.Minute,
		Ownership: qos.Exclusive, Strength: -4, Liveliness: qos.Liveliness{Kind: qos.ManualByTopic, Lease: 3 * time.Second}, Partitions: []string{"a", "", "long*"},
		Reliability: qos.Reliability{Kind: qos.BestEffort, MaxBlocking: 100 * time.Millisecond}, Order: qos.BySource, History: qos.KeepAll(),
		Limits: qos.Limits{Samples: 100, Instances: 2}, UserData: []byte{1}, GroupData: []byte{2, 3}, TopicData: []byte{4, 5, 6},
	}
	w := Endpoint{GUID: GUID{someone, Writer(3, true)}, Topic: "Square", Type: "ShapeType", QoS: set, Representations: []int16{XCDR1}, Unicast: []Locator{somewhere}}
	e, err := ParseEndpoint(w.Append(nil), false)
	same(t, e, w, err)
	r := Endpoint{GUID: GUID{someone, Reader(3, false)}, Topic: "T", Type: "U", QoS: qos.Set{Separation: time.Second, History: qos.KeepLast(2)}, Representations: []int16{XCDR1, XCDR2}}
	e, err = ParseEndpoint(r.Append(nil), true)
	same(t, e, r, err)
	g, err = ParseKey(AppendEndpointKey(nil, w.GUID))
	same(t, g, w.GUID, err)
	if _, err := ParseEndpoint(w.Append(nil), true); !errors.Is(err, ErrMalformed) {
		t.Errorf("a writer that is announced as a reader: %v", err)
	}
}

// Parameters have a length of 16 bits. Names without any byte are longer when they are said again:
// with their zero byte, and padding.
func TestAnAnnouncementThatIsTooLargeIsNotMade(t *testing.T) {
	e, err := ParseEndpoint(manyPartitions(9000), false)
	if err != nil || len(e.QoS.Partitions) != 9000 {
		t.Fatalf("%d partitions, %v", len(e.QoS.Partitions), err)
	}
	if err := e.Check(); err == nil {
		t.Errorf("an announcement of %d bytes is made", len(e.Append(nil)))
	}
	e.QoS.Partitions = nil
	e.QoS.UserData = make([]byte, AnnouncementBytes-len(e.Append(nil))-12)
	if err := e.Check(); err != nil {
		t.Error(err)
	}
	got, err := ParseEndpoint(e.Append(nil), false)
	if err != nil || len(got.QoS.UserData) != len(e.QoS.UserData) {
		t.Errorf("%d bytes of user data became %d, %v", len(e.QoS.UserData), len(got.QoS.UserData), err)
	}
	e.QoS.UserData = append(e.QoS.UserData, make([]byte, 12)...)
	if err := e.Check(); err == nil {
		t.Errorf("an announcement of %d bytes is made", len(e.Append(nil)))
	}
}

// manyPartitions is the announcement of a writer with partitions that are written as strings of no
// bytes.
func manyPartitions(n int) []byte {
	l := newList(nil)
	l.addGUID(pidEndpointGUID, GUID{someone, Writer(1, true)})
	l.addText(pidTopicName, "T")
	l.addText(pidTypeName, "U")
	l.addU32(pidPartition, append([]uint32{uint32(n)}, make([]uint32, n)...)...)
	return l.end()
}

// A reader that tells nothing has the defaults of DDS.
func TestDefaultsOfAnEndpoint(t *testing.T) {
	l := newList(nil)
	l.addGUID(pidEndpointGUID, GUID{someone, Reader(1, true)})
	l.addText(pidTopicName, "T")
	l.addText(pidTypeName, "U")
	e, err := ParseEndpoint(l.end(), true)
	if err != nil || e.QoS.Reliability.Kind != qos.BestEffort || e.QoS.Durability != qos.Volatile {
		t.Fatalf("%+v, %v", e, err)
	}
}

func TestUnknownParameters(t *testing.T) {
	for _, c := range []struct {
		id ParameterID
		ok bool
	}{{0x3123, true}, {0x3123 | mustUnderstand, false}, {vendorSpecific | 0x7, true}, {vendorSpecific | mustUnderstand | 0x7, true}} {
		l := newList(nil)
		l.addGUID(pidEndpointGUID, GUID{someone, Writer(1, true)})
		l.addText(pidTopicName, "T")
		l.addText(pidTypeName, "U")
		l.addU32(c.id, 1)
		if _, err := ParseEndpoint(l.end(), false); (err == nil) != c.ok {
			t.Errorf("parameter %#04x: %v", uint16(c.id), err)
		}
	}
}

// A parameter of this vendor names where samples have been. A parameter of another vendor may have
// its number.
func TestAWayIsParsedAsItWasAppended(t *testing.T) {
	e := Endpoint{GUID: GUID{Entity: Writer(1, true)}, Topic: "t", Type: "T", Way: "a\nd\nspace"}
	b := e.Append(nil)
	got, err := ParseEndpoint(b, false)
	if err != nil || got.Way != e.Way {
		t.Fatalf("%q, %v", got.Way, err)
	}
	i := bytes.Index(b, []byte(wayMarker))
	b[i]++
	if got, err = ParseEndpoint(b, false); err != nil || got.Way != "" {
		t.Fatalf("of another vendor: %q, %v", got.Way, err)
	}
}

func TestLocatorsOfOtherKindsAreSkipped(t *testing.T) {
	p := Participant{Prefix: someone, Lease: time.Second, Domain: -1, Metatraffic: []Locator{somewhere}}
	b := p.Append(nil)
	other := newList(nil)
	other.add(pidMetatrafficUnicast, func() { other.buf = append(other.buf, make([]byte, locatorBytes)...) })
	b = append(append(b[:4:4], other.buf[4:]...), b[4:]...)
	got, err := ParseParticipant(b)
	same(t, got.Metatraffic, p.Metatraffic, err)
}

func TestMalformedSubmessagesAreRefused(t *testing.T) {
	le := func(n int) []byte { return make([]byte, n) }
	fragment := func(rest ...byte) []byte {
		return append(append([]byte{0, 0, 28, 0}, append(le(12), 1, 0, 0, 0)...), rest...)
	}
	for name, s := range map[string]struct {
		kind  Kind
		flags byte
		body  []byte
	}{
		"a sample that is a key":                {KindData, 4 | 8, le(24)},
		"a sample without a number":             {KindData, 4, le(24)},
		"inline QoS after the end":              {KindData, 2, append([]byte{0, 0, 200, 0}, append(le(12), 1, 0, 0, 0, 0, 0, 0, 0)...)},
		"a heartbeat that begins at 0":          {KindHeartbeat, 0, le(28)},
		"a set of too many numbers":             {KindAckNack, 0, append(le(16), 1, 2, 0, 0, 0, 0, 0, 0)},
		"a set without its bits":                {KindAckNack, 0, append(le(16), 0, 1, 0, 0)},
		"a gap that goes back":                  {KindGap, 0, le(28)},
		"a fragment of nothing":                 {KindDataFrag, 0, le(36)},
		"a target that is short":                {KindInfoTarget, 0, le(8)},
		"a fragment with a number that is huge": {KindDataFrag, 0, fragment(0xff, 0xff, 0xff, 0xff, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2)},
		"a fragment after the end":              {KindDataFrag, 0, fragment(2, 0, 0, 0, 1, 0, 4, 0, 4, 0, 0, 0, 1, 2, 3, 4)},
	} {
		sub := Submessage{Kind: s.kind, Flags: s.flags | 1, Body: s.body, Order: binary.LittleEndian}
		if err := decodeAny(&sub); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func decodeAny(s *Submessage) (err error) {
	switch s.Kind {
	case KindData:
		var d Data
		if d, err = s.Data(); err == nil {
			_, _, err = d.Change()
			discovery(d.Payload)
		}
	case KindDataFrag:
		var d Data
		if d, err = s.DataFrag(); err == nil {
			_, _, err = d.Change()
		}
	case KindHeartbeat:
		_, err = s.Heartbeat()
	case KindAckNack:
		_, err = s.AckNack()
	case KindGap:
		_, err = s.Gap()
	case KindNackFrag:
		_, err = s.NackFrag()
	case KindHeartbeatFrag:
		_, err = s.HeartbeatFrag()
	case KindInfoTime:
		_, _, err = s.InfoTime()
	case KindInfoTarget:
		_, err = s.Target()
	case KindInfoSource:
		_, err = s.InfoSource()
	}
	return err
}

// discovery reads a payload as each of the things that it may be, and checks that what was
// understood can be announced again, unless it is too large for that.
func discovery(payload []byte) {
	if p, err := ParseParticipant(payload); err == nil {
		if _, err := ParseParticipant(p.Append(nil)); err != nil {
			panic(err)
		}
	}
	for _, reader := range []bool{false, true} {
		if e, err := ParseEndpoint(payload, reader); err == nil {
			if _, err := ParseEndpoint(e.Append(nil), reader); e.Check() == nil && err != nil {
				panic(err)
			}
		}
	}
	_, _ = ParseKey(payload)
}

func FuzzMessage(f *testing.F) {
	var a Appender
	p := Participant{Prefix: someone, Lease: time.Second, Metatraffic: []Locator{somewhere}}
	e := Endpoint{GUID: GUID{someone, Writer(1, true)}, Topic: "T", Type: "U", QoS: qos.Set{Partitions: []string{"p"}}}
	a.Reset(someone)
	a.Target(someone)
	a.InfoTime(1e18)
	a.Data(Unknown, ParticipantWriter, 1, 0, p.Append(nil))
	a.Data(Unknown, PublicationsWriter, 1, 0, e.Append(nil))
	a.Data(Unknown, PublicationsWriter, 2, Disposed, AppendEndpointKey(nil, e.GUID))
	f.Add(slices.Clone(a.Bytes()))
	a.Reset(someone)
	a.Data(Unknown, PublicationsWriter, 1, 0, manyPartitions(9000))
	f.Add(slices.Clone(a.Bytes()))
	a.Reset(someone)
	a.DataFrag(Unknown, Writer(1, true), 1, 0, make([]byte, 100), 2, 64)
	a.Heartbeat(Heartbeat{First: 1, Last: 5, Count: 1})
	a.AckNack(AckNack{Missing: Numbers{Base: 3, N: 40, Bits: [8]uint32{1, 2}}, Count: 1})
	a.Gap(Unknown, Writer(1, true), 1, 5)
	a.NackFrag(NackFrag{Sequence: 1, Missing: Numbers{Base: 1, N: 1}})
	f.Add(a.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := NewDecoder(b)
		if err != nil {
			return
		}
		for {
			s, ok, err := d.Next()
			if err != nil || !ok {
				return
			}
			if err := decodeAny(&s); err != nil && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
		}
	})
}

// Each kind of submessage by itself, in both byte orders, with any flags and any body.
func FuzzSubmessage(f *testing.F) {
	for _, k := range []Kind{
		KindAckNack, KindHeartbeat, KindGap, KindInfoTime, KindInfoSource, KindInfoTarget, KindNackFrag, KindHeartbeatFrag, KindData, KindDataFrag,
	} {
		f.Add(byte(k), byte(5), make([]byte, 40))
	}
	f.Fuzz(func(t *testing.T, kind, flags byte, body []byte) {
		s := Submessage{Kind: Kind(kind), Flags: flags, Body: body, Order: order(flags)}
		if err := decodeAny(&s); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
	})
}
