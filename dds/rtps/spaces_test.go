package rtps_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
	"github.com/squall-go/squall/internal/testutil"
	_ "github.com/squall-go/squall/persist/bolt"
)

// text takes samples from a reader until their text is as long as want, and demands that it is
// want. The text has KEY:NUMBER for a sample, KEY:d for a disposed instance, and KEY:n for an
// instance without writers.
func text(t *testing.T, r *dds.Reader[keyedSeq], want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := ""
	for len(got) < len(want) {
		s, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("read %q, and not %q: %v", got, want, err)
		}
		what := fmt.Sprint(s.Value.Seq)
		switch {
		case s.Info.Valid:
		case s.Info.Instance == dds.InstanceDisposed:
			what = "d"
		default:
			what = "n"
		}
		got += fmt.Sprintf("%d:%s ", s.Value.Keyval, what)
	}
	if got != want {
		t.Fatalf("read %q, and not %q", got, want)
	}
}

func namedGateway(t *testing.T, p *member.Member, domain int, space string, topic rtps.Topic) *rtps.Gateway {
	t.Helper()
	kind, err := rtps.TypeOf[keyedSeq]()
	if err != nil {
		t.Fatal(err)
	}
	topic.Type = kind
	g, err := rtps.Open(t.Context(), rtps.Config{
		Member: p, Space: space, Domain: domain, Interface: "127.0.0.1", Index: rtps.AnyIndex, Topics: []rtps.Topic{topic}, Logger: logger(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeGateway(t, g) })
	return g
}

// Two spaces carry one topic in both directions over a domain: writes, disposes, ends of writers
// and histories come through, each once, and nothing comes back (RG3).
func TestTwoSpacesOverADomain(t *testing.T) {
	domain := newDomain()
	set := dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(2)}}
	read := dds.QoS{Durability: qos.Transient, History: qos.KeepAll()}
	a, b := space(t, nil), space(t, nil)
	ta, tb := keyed(t, a, "positions", set), keyed(t, b, "places", set)
	write := func(w *dds.Writer[keyedSeq], key, seq uint32) {
		t.Helper()
		if err := w.Write(t.Context(), keyedSeq{Keyval: key, Seq: seq, Baggage: make([]byte, 3000)}); err != nil {
			t.Fatal(err)
		}
	}
	wa, err := ta.Writer(t.Context(), dds.QoS{Durability: qos.Transient})
	if err != nil {
		t.Fatal(err)
	}
	write(wa, 1, 1)
	write(wa, 1, 2)
	write(wa, 1, 3) // before there is a gateway: the last two are the history
	ra, rb := readerOf(t, ta, read), readerOf(t, tb, read)
	text(t, ra, "1:2 1:3 ")
	ga := namedGateway(t, a, domain, "a", rtps.Topic{Name: "positions", DDSName: "shared", Direction: rtps.Both, QoS: set})
	gb := namedGateway(t, b, domain, "b", rtps.Topic{Name: "places", DDSName: "shared", Direction: rtps.Both, QoS: set})
	text(t, rb, "1:2 1:3 ")
	wb, err := tb.Writer(t.Context(), dds.QoS{Durability: qos.Transient, KeepUnregistered: true})
	if err != nil {
		t.Fatal(err)
	}
	write(wb, 2, 7)
	text(t, ra, "2:7 ")
	if err := wb.Dispose(t.Context(), keyedSeq{Keyval: 2}); err != nil {
		t.Fatal(err)
	}
	text(t, ra, "2:d ")
	write(wb, 3, 8)
	if err := wb.Unregister(t.Context(), keyedSeq{Keyval: 3}); err != nil {
		t.Fatal(err)
	}
	text(t, ra, "3:8 3:n ")
	write(wa, 1, 4)
	text(t, rb, "2:7 2:d 3:8 3:n 1:4 ")
	text(t, ra, "1:4 ")
	// Nothing is on its way back: what each side has carried in is what the other one has written.
	sa, sb := ga.Stats(), gb.Stats()
	if sa.Received != sb.Written || sb.Received != sa.Written || sa.Written != 3 || sb.Written != 4 {
		t.Fatalf("RG3: one gateway: %+v; the other one: %+v", sa, sb)
	}
}

// Samples go through two gateways of one space from one domain of ddsperf into another one.
func TestASpaceBetweenTwoDomains(t *testing.T) {
	testutil.Long(t)
	p := space(t, nil)
	from, to := newDomain(), newDomain()
	topic := rtps.Topic{Name: dataTopic, Direction: rtps.Both}
	in, out := gateway(t, p, from, topic), gateway(t, p, to, topic)
	sub := ddsperf(t, to, "-D", "2", "sub")
	pub := ddsperf(t, from, "-D", "2", "pub", "2kHz", "size", "100")
	printed := sub.wait(t, 20*time.Second)
	t.Logf("%s\n%s\n%+v\n%+v", printed, pub.wait(t, 20*time.Second), in.Stats(), out.Stats())
	receivedAll(t, sub, printed)
	if back := in.Stats().Written; back != 0 {
		t.Fatalf("RG3: %d samples went back", back)
	}
}

// Of a persistent topic no more samples are acknowledged than are on the disks (RG1).
func TestPersistentSamplesAreAcknowledgedFromTheDisk(t *testing.T) {
	const n = 500
	domain := newDomain()
	local := dds.QoS{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepAll()}}
	from := space(t, nil)
	w, err := keyed(t, from, "t", local).Writer(t.Context(), dds.QoS{Durability: qos.TransientLocal})
	if err != nil {
		t.Fatal(err)
	}
	to := space(t, func(c *member.Config) { c.Subgroup.Mode = squall.Persistent })
	namedGateway(t, from, domain, "a", rtps.Topic{Name: "t", Direction: rtps.Out, QoS: local})
	set := dds.QoS{Durability: qos.Persistent, Service: qos.DurabilityService{History: qos.KeepAll()}}
	g := namedGateway(t, to, domain, "b", rtps.Topic{Name: "t", Direction: rtps.In, QoS: set})
	log, err := to.Subgroup().Log()
	if err != nil {
		t.Fatal(err)
	}
	onDisk := func() (samples uint64) {
		t.Helper()
		end := log.Persisted(squall.OnEveryDisk)
		if end == (squall.Version{}) {
			return 0
		}
		for r, err := range log.Range(squall.Version{}, end) {
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(r.Data, []byte("baggage of a sample")) {
				samples++
			}
		}
		return samples
	}
	baggage := bytes.Repeat([]byte("baggage of a sample "), 10)
	for i := range uint32(n) {
		if err := w.Write(t.Context(), keyedSeq{Seq: i, Baggage: baggage}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; {
		acknowledged := g.Stats().Acknowledged
		if there := onDisk(); acknowledged > there {
			t.Fatalf("RG1: %d samples are acknowledged, and %d are on the disk", acknowledged, there)
		}
		if acknowledged == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d samples of %d are acknowledged", acknowledged, n)
		}
	}
}

// A sample that the space refuses, because it is too large, holds up its own writer and no other
// one.
func TestASampleThatIsTooLargeHoldsUpItsWriterOnly(t *testing.T) {
	domain := newDomain()
	from, to := space(t, nil), space(t, func(c *member.Config) { c.Subgroup.RingBytes = 64 << 10 })
	kind, err := rtps.TypeOf[keyedSeq]()
	if err != nil {
		t.Fatal(err)
	}
	open := func(p *member.Member, name string, d rtps.Direction) *rtps.Gateway {
		g, err := rtps.Open(t.Context(), rtps.Config{
			Member: p, Space: name, Domain: domain, Interface: "lo", Index: rtps.AnyIndex, Logger: logger(t),
			Topics: []rtps.Topic{{Name: "large", Type: kind, Direction: d}, {Name: "small", Type: kind, Direction: d}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeGateway(t, g) })
		return g
	}
	writer := func(name string) *dds.Writer[keyedSeq] {
		w, err := keyed(t, from, name, dds.QoS{}).Writer(t.Context(), dds.QoS{})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	large, small := writer("large"), writer("small")
	r := readerOf(t, keyed(t, to, "small", dds.QoS{}), dds.QoS{History: qos.KeepAll()})
	out, in := open(from, "a", rtps.Out), open(to, "b", rtps.In)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for in.Stats().Writers < 2 || out.Stats().Readers < 2 { // a volatile sample is for the readers that are known when it is written
		if ctx.Err() != nil {
			t.Fatalf("the gateways do not match: %+v, %+v", in.Stats(), out.Stats())
		}
		time.Sleep(time.Millisecond)
	}
	write := func(w *dds.Writer[keyedSeq], v keyedSeq) {
		if err := w.Write(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	write(large, keyedSeq{Baggage: make([]byte, 100_000)})
	for in.Stats().Received == 0 {
		if ctx.Err() != nil {
			t.Fatalf("the large sample does not come: %+v, %+v", in.Stats(), out.Stats())
		}
		time.Sleep(time.Millisecond)
	}
	for i := range uint32(40) {
		write(small, keyedSeq{Seq: i})
		if s, err := r.Next(ctx); err != nil || s.Value.Seq != i {
			t.Fatalf("sample %d of another writer: %v, %v", i, s.Value.Seq, err)
		}
	}
	if s := in.Stats(); s.Acknowledged > 40 {
		t.Fatalf("RG1: %d samples are acknowledged", s.Acknowledged)
	}
}

func TestOneTopicOfDDSComesIntoOneTopic(t *testing.T) {
	_, err := rtps.Open(t.Context(), rtps.Config{Topics: []rtps.Topic{{Name: "a", DDSName: "t", Direction: rtps.In}, {Name: "t", Direction: rtps.Both}}})
	if err == nil || !strings.Contains(err.Error(), "comes into two topics") {
		t.Fatalf("two topics take one of DDS: %v", err)
	}
}

// A writer whose policies do not fit into an announcement of DDS is left out, and no other one.
func TestAWriterThatCannotBeAnnouncedIsLeftOut(t *testing.T) {
	domain := newDomain()
	set := dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(2)}}
	a, b := space(t, nil), space(t, nil)
	ta, tb := keyed(t, a, "positions", set), keyed(t, b, "positions", set)
	r := readerOf(t, tb, dds.QoS{Durability: qos.Transient, History: qos.KeepAll()})
	namedGateway(t, a, domain, "a", rtps.Topic{Name: "positions", Direction: rtps.Out, QoS: set})
	namedGateway(t, b, domain, "b", rtps.Topic{Name: "positions", Direction: rtps.In, QoS: set})
	out, err := ta.Writer(t.Context(), dds.QoS{Durability: qos.Transient, UserData: make([]byte, 70_000)})
	if err != nil {
		t.Fatal(err)
	}
	w, err := ta.Writer(t.Context(), dds.QoS{Durability: qos.Transient})
	if err != nil {
		t.Fatal(err)
	}
	for i, each := range []*dds.Writer[keyedSeq]{out, w} {
		if err := each.Write(t.Context(), keyedSeq{Keyval: uint32(i), Seq: 5}); err != nil {
			t.Fatal(err)
		}
	}
	text(t, r, "1:5 ")
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), keyedSeq{Keyval: 1, Seq: 6}); err != nil {
		t.Fatal(err)
	}
	text(t, r, "1:6 ")
}

func TestPoliciesThatCannotBeAnnouncedAreRefused(t *testing.T) {
	p := space(t, nil)
	kind, err := rtps.TypeOf[keyedSeq]()
	if err != nil {
		t.Fatal(err)
	}
	c := rtps.Config{
		Member: p, Interface: "127.0.0.1", Index: rtps.AnyIndex, Domain: newDomain(), UserData: make([]byte, 40_000),
		Topics: []rtps.Topic{{Name: "positions", Type: kind, Direction: rtps.In, Partitions: []string{strings.Repeat("p", 70_000)}}},
	}
	if _, err := rtps.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "announcement") || !strings.Contains(err.Error(), "user data") {
		t.Errorf("%v", err)
	}
}

// Two spaces between the same two domains: a sample of one of them comes into the other one on both
// ways, and goes on from there, and comes back on none (RG3).
func TestNothingGoesRoundBetweenTwoSpacesAndTwoDomains(t *testing.T) {
	set := dds.QoS{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepAll()}}
	all := dds.QoS{Durability: qos.TransientLocal, History: qos.KeepAll()}
	a, b := space(t, nil), space(t, nil)
	d1, d2 := newDomain(), newDomain()
	ta, tb := keyed(t, a, "positions", set), keyed(t, b, "positions", set)
	ra, rb := readerOf(t, ta, all), readerOf(t, tb, all)
	topic := rtps.Topic{Name: "positions", Direction: rtps.Both, QoS: set}
	ga := []*rtps.Gateway{namedGateway(t, a, d1, "a", topic), namedGateway(t, a, d2, "a", topic)}
	gb := []*rtps.Gateway{namedGateway(t, b, d1, "b", topic), namedGateway(t, b, d2, "b", topic)}
	const n = 10
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	send := func(tp *dds.Topic[keyedSeq], first uint32) {
		t.Helper()
		w, err := tp.Writer(ctx, dds.QoS{Durability: qos.TransientLocal})
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint32(n) {
			if err := w.Write(ctx, keyedSeq{Keyval: first, Seq: i}); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(r *dds.Reader[keyedSeq], key uint32, times int) {
		t.Helper()
		for left := times * n; left > 0; left-- {
			s, err := r.Next(ctx)
			if err != nil || !s.Info.Valid || s.Value.Keyval != key {
				t.Fatalf("%+v, %v; %d samples are missing", s, err, left)
			}
		}
	}
	written := func(all []*rtps.Gateway) uint64 { return all[0].Stats().Written + all[1].Stats().Written }
	send(ta, 1)
	read(ra, 1, 1)
	read(rb, 1, 2)
	for written(gb) < 2*n { // what came on one way goes out on the other one
		if ctx.Err() != nil {
			t.Fatalf("%+v, %+v", gb[0].Stats(), gb[1].Stats())
		}
		time.Sleep(time.Millisecond)
	}
	// The gateways of b announced their writers of these samples before those of the next ones.
	send(tb, 2)
	read(ra, 2, 2)
	read(rb, 2, 1)
	for _, g := range ga {
		if s := g.Stats(); s.Received != n || s.Writers != 1 {
			t.Errorf("RG3: a gateway has received %d samples, of %d writers: %+v", s.Received, s.Writers, s)
		}
	}
}
