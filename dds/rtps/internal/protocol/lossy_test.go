package protocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/testutil"
)

// world is some participants and a network between them which loses, delays, doubles and reorders
// messages, in virtual time.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	now      int64
	loss     float64
	double   float64
	steady   bool // messages take the same time
	flying   []flight
	hosts    []*host
	messages int
}

type flight struct {
	at   int64
	from wire.Locator
	to   wire.Locator
	data []byte
}

// host is a participant with what it was told.
type host struct {
	*world
	p         *Participant
	at        wire.Locator
	from      wire.Locator // that the others see
	down      bool
	got       map[wire.GUID][]Sample
	by        map[wire.GUID]*RemoteWriter
	matched   int // writers and readers that match, now
	silent    int // readers that did not answer
	rooms     int // times that a writer was said to have room again
	reasons   []string
	full      bool // it takes no samples
	manual    bool // acknowledges on request only
	unchecked int  // since writers were checked
	anew      bool // what it has got of a writer is that since it matches
}

func newWorld(t *testing.T, seed uint64, loss float64) *world {
	t.Logf("seed %#x", seed)
	return &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: int64(time.Hour), loss: loss, double: loss / 2}
}

func (w *world) host(n byte, change func(*Config)) *host {
	h := &host{world: w, at: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 7410), got: map[wire.GUID][]Sample{}, by: map[wire.GUID]*RemoteWriter{}}
	h.from = h.at
	cfg := Config{Prefix: wire.Prefix{1, 2, 3, n}, Metatraffic: []wire.Locator{h.at}, Default: []wire.Locator{h.at}}
	for i := byte(1); i <= 4; i++ {
		cfg.Announce = append(cfg.Announce, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, i}), 7410))
	}
	if change != nil {
		change(&cfg)
	}
	h.p = New(cfg, h, w.now)
	w.hosts = append(w.hosts, h)
	return h
}

func (h *host) Send(to wire.Locator, message []byte) {
	h.messages++
	copies := 1
	if h.rng.Float64() < h.double {
		copies = 2
	}
	for range copies {
		if h.rng.Float64() >= h.loss {
			at := h.now + int64(time.Millisecond)
			if !h.steady {
				at = h.now + int64(h.rng.IntN(int(2*time.Millisecond)))
			}
			h.flying = append(h.flying, flight{at, h.from, to, bytes.Clone(message)})
		}
	}
}

func (h *host) Sample(_ *Reader, from *RemoteWriter, s Sample) bool {
	if h.full {
		return false
	}
	h.got[from.Endpoint.GUID] = append(h.got[from.Endpoint.GUID], s)
	return true
}

func (h *host) WriterMatched(_ *Reader, w *RemoteWriter) {
	h.matched++
	h.by[w.Endpoint.GUID] = w
	if h.anew {
		delete(h.got, w.Endpoint.GUID)
	}
}
func (h *host) WriterGone(_ *Reader, w *RemoteWriter) { h.matched--; delete(h.by, w.Endpoint.GUID) }
func (h *host) ReaderMatched(*Writer, wire.Endpoint)  { h.matched++ }
func (h *host) ReaderGone(*Writer, wire.Endpoint)     { h.matched-- }
func (h *host) ReaderSilent(*Writer, wire.Endpoint)   { h.silent++ }
func (h *host) Room(*Writer)                          { h.rooms++ }
func (h *host) Incompatible(_, _ wire.Endpoint, why string, _ []qos.Policy) {
	h.reasons = append(h.reasons, why)
}

// step moves time to the next thing that happens, and at most by a millisecond.
func (w *world) step() {
	w.now += int64(time.Millisecond)
	var due, later []flight
	for _, f := range w.flying {
		if f.at <= w.now {
			due = append(due, f)
		} else {
			later = append(later, f)
		}
	}
	w.flying = later
	if !w.steady {
		w.rng.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	}
	for _, f := range due {
		for _, h := range w.hosts {
			if h.at == f.to && !h.down {
				if err := h.p.Receive(w.now, f.from, bytes.Clone(f.data)); err != nil {
					w.t.Fatalf("a message of this package: %v", err)
				}
			}
		}
	}
	for _, h := range w.hosts {
		if h.down {
			continue
		}
		if !h.manual {
			for g, rw := range h.by {
				if all := h.got[g]; len(all) > 0 {
					rw.Acknowledge(w.now, all[len(all)-1].Sequence)
				}
			}
		}
		if h.p.Due() <= w.now {
			h.p.Tick(w.now)
		}
		h.p.Flush()
		h.check()
	}
}

// check looks at what holds between any two steps: what is kept is what is counted, and none of it
// is of samples that were passed (RT4); a writer has what its readers lack, and no more than that
// and its history (RT3); no reader is sent more than its window; and a writer whose host was told
// that there is no room has none.
func (h *host) check() {
	kept := 0
	for _, r := range append([]*Reader{h.p.publicationsOf, h.p.subscriptionsOf, h.p.livelinessOf}, h.p.readers...) {
		for _, rw := range r.writers {
			held := 0
			for seq, k := range rw.held {
				if held += len(k.Payload); seq < rw.next || seq-rw.next > maxAhead {
					h.t.Fatalf("RT4: sample %d is held, and the next one is %d", seq, rw.next)
				}
			}
			parts := 0
			for seq, part := range rw.partial {
				if parts += part.cost; seq < rw.next || !slices.Contains(rw.order, seq) {
					h.t.Fatalf("RT4: fragments of sample %d are kept, and the next one is %d", seq, rw.next)
				}
			}
			if parts != rw.partialBytes || len(rw.order) != len(rw.partial) {
				h.t.Fatalf("RT4: fragments of %d bytes are kept, and %d are counted", parts, rw.partialBytes)
			}
			if rw.told > rw.acked || rw.acked > rw.next || rw.delivered >= rw.next {
				h.t.Fatalf("RT2: told %d, acknowledged %d, delivered %d, next %d", rw.told, rw.acked, rw.delivered, rw.next)
			}
			if held != rw.heldBytes || held > heldBytes || len(rw.held) > maxHeld {
				h.t.Fatalf("RT4: %d bytes are held, and %d are counted", held, rw.heldBytes)
			}
			kept += rw.heldBytes + rw.partialBytes
		}
	}
	if kept != h.p.kept {
		h.t.Fatalf("RT4: %d bytes are kept, and %d are counted", kept, h.p.kept)
	}
	for _, w := range append([]*Writer{h.p.publications, h.p.subscriptions, h.p.liveliness}, h.p.writers...) {
		if h.unchecked += 64; h.unchecked > (1+len(w.proxies))*len(w.changes) { // a long history costs a step no more than a short one
			h.unchecked = 0
			w.check(h.t)
		}
	}
	for _, w := range h.p.writers {
		if low := w.acked(); w.full && w.next()-low < unacknowledged && w.bytesFrom(low) < 8*int64(h.p.cfg.WindowBytes) {
			h.t.Fatal("a writer has room again, and its host was not told")
		}
	}
}

func (w *Writer) check(t *testing.T) {
	gone, last, end, needed := 0, w.first-1, int64(0), w.acked()
	for i := range w.changes {
		c := &w.changes[i]
		if c.gone {
			gone++
		}
		if c.seq <= last || i == 0 && c.seq != w.first || c.end-c.size < end || !c.gone && int64(len(c.Payload)) != c.size {
			t.Fatalf("sample %d follows %d, with bytes from %d to %d after %d", c.seq, last, c.end-c.size, c.end, end)
		}
		if !w.builtin() && !c.gone && !c.durable && c.seq < needed {
			t.Fatalf("RT3: sample %d is kept, readers need those from %d on, and it is not of the history", c.seq, needed)
		}
		last, end = c.seq, c.end
	}
	if gone != w.gone || 2*gone > len(w.changes) || last > w.last || len(w.changes) == 0 && w.first != w.next() {
		t.Fatalf("%d of %d samples up to %d of %d are gone, and %d are counted", gone, len(w.changes), last, w.last, w.gone)
	}
	for _, r := range w.proxies {
		lacks := r.sent
		if r.reliable {
			lacks = r.acked
		}
		if r.start > r.acked || r.acked > r.sent || r.sent > w.next() {
			t.Fatalf("a reader begins at %d, has acknowledged all below %d and was sent all below %d of %d", r.start, r.acked, r.sent, w.next())
		}
		for seq := max(lacks, r.live); seq < w.next() && !w.builtin(); seq++ {
			if c := w.at(seq); c == nil || c.gone {
				t.Fatalf("RT3: sample %d is gone, and a reader lacks it", seq)
			}
		}
		x := r.sent - 1 // the last sample that was sent
		for x >= r.acked && (w.at(x) == nil || !r.wants(w.at(x))) {
			x--
		}
		if r.reliable && x > r.acked && w.bytesFrom(r.acked)-w.bytesFrom(x) >= int64(w.p.cfg.WindowBytes) {
			t.Fatalf("RT4: %d bytes were sent before sample %d and are not acknowledged", w.bytesFrom(r.acked)-w.bytesFrom(x), x)
		}
	}
}

// until steps until a condition holds, for at most so long in virtual time.
func (w *world) until(what string, most time.Duration, done func() bool) {
	w.t.Helper()
	for end := w.now + int64(most); !done(); w.step() {
		if w.now > end {
			w.t.Fatalf("within %v it did not come to this: %s", most, what)
		}
	}
}

func (w *world) during(d time.Duration) {
	for end := w.now + int64(d); w.now < end; {
		w.step()
	}
}

func endpoint(set qos.Set) wire.Endpoint {
	return wire.Endpoint{Topic: "t", Type: "T", QoS: set}
}

func payload(i, size int) []byte {
	b := make([]byte, max(size, 8))
	copy(b, fmt.Sprintf("%08d", i))
	for j := 8; j < len(b); j++ {
		b[j] = byte(i + j)
	}
	return b
}

// inOrder checks RT1: samples come in the order of their numbers, each once and none left out, with
// their payloads.
func inOrder(t *testing.T, got []Sample, from, n int, size func(int) int) {
	t.Helper()
	if len(got) != n-from {
		t.Fatalf("RT1: %d samples of %d from %d on", len(got), n, from)
	}
	for i, s := range got {
		if !bytes.Equal(s.Payload, payload(from+i, size(from+i))) || s.Source != int64(from+i)*1000 || i > 0 && s.Sequence <= got[i-1].Sequence {
			t.Fatalf("RT1: sample %d has the number %d, time %d and %d bytes", from+i, s.Sequence, s.Source, len(s.Payload))
		}
	}
}

func sizes(i int) int {
	if i%17 == 3 {
		return 10_000
	}
	return i % 75 * 4
}

// Samples, small ones and ones in fragments, cross networks of any kind: every one comes once, in
// order, and the writer forgets them.
func TestReliableSamplesCrossALossyNetwork(t *testing.T) {
	for _, loss := range []float64{0, 0.05, 0.3} {
		for lap := range uint64(3) {
			seed := testutil.Seed(t) + lap
			t.Run(fmt.Sprintf("loss=%v", loss), func(t *testing.T) {
				w := newWorld(t, seed, loss)
				a, b := w.host(1, nil), w.host(2, nil)
				out := a.p.OpenWriter(w.now, endpoint(qos.Set{}), true)
				b.p.OpenReader(w.now, endpoint(qos.Set{}), true)
				w.until("both match", time.Minute, func() bool { return a.matched == 1 && b.matched == 1 })
				const n = 1500
				for i := 0; i < n; {
					if out.Room() && w.rng.IntN(3) > 0 {
						out.Write(Change{Source: int64(i) * 1000, Payload: payload(i, sizes(i))})
						i++
						continue
					}
					w.step()
				}
				w.until("all have come", 10*time.Minute, func() bool { return out.Acknowledged() })
				inOrder(t, b.got[out.Endpoint.GUID], 0, n, sizes)
				if kept := out.next() - out.first; kept != 0 {
					t.Fatalf("RT3: the writer keeps %d samples that were acknowledged", kept)
				}
			})
		}
	}
}

// A writer keeps what its reader's host has not acknowledged, and is never told otherwise (RT2,
// RT3, RT4).
func TestNothingIsAcknowledgedBeforeTheHostDoes(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0.1)
	a, b := w.host(1, nil), w.host(2, nil)
	b.manual = true
	out := a.p.OpenWriter(w.now, endpoint(qos.Set{}), true)
	b.p.OpenReader(w.now, endpoint(qos.Set{}), true)
	w.until("both match", time.Minute, func() bool { return a.matched == 1 && b.matched == 1 })
	written := 0
	for out.Room() {
		out.Write(Change{Source: int64(written) * 1000, Payload: payload(written, 1000)})
		written++
	}
	if written > unacknowledged || written < 100 {
		t.Fatalf("RT4: the writer took %d samples without an acknowledgement", written)
	}
	w.during(20 * time.Second)
	if low := out.acked(); low != 1 {
		t.Fatalf("RT2: the writer was told of all below %d, and the host has acknowledged nothing", low)
	}
	g := out.Endpoint.GUID
	if len(b.got[g]) == 0 {
		t.Fatal("no sample has come")
	}
	for acked := int64(0); acked < int64(written); {
		acked = b.got[g][len(b.got[g])-1].Sequence
		b.by[g].Acknowledge(w.now, acked)
		b.p.Flush()
		w.during(500 * time.Millisecond)
		if low := out.acked(); low > acked+1 {
			t.Fatalf("RT2: the writer was told of all below %d, the host has acknowledged %d", low, acked)
		}
	}
	w.until("the writer knows", time.Minute, out.Acknowledged)
	inOrder(t, b.got[g], 0, written, func(int) int { return 1000 })
}

func TestWhatDoesNotMatchSaysWhy(t *testing.T) {
	writer, reader := endpoint(qos.Set{}), endpoint(qos.Set{})
	for _, e := range []struct {
		why    string
		change func()
	}{
		{"type", func() { reader.Type = "U" }},
		{"representation", func() { writer.Representations = []int16{wire.XCDR2} }},
		{"DURABILITY", func() { reader.QoS.Durability = qos.Transient }},
		{"", func() { reader.QoS.Partitions = []string{"p"} }},
	} {
		w := newWorld(t, testutil.Seed(t), 0)
		a, b := w.host(1, nil), w.host(2, nil)
		writer, reader = endpoint(qos.Set{}), endpoint(qos.Set{})
		e.change()
		a.p.OpenWriter(w.now, writer, true)
		b.p.OpenReader(w.now, reader, true)
		w.during(5 * time.Second)
		if a.matched+b.matched != 0 {
			t.Fatalf("%q: they match", e.why)
		}
		for _, h := range []*host{a, b} {
			if told := len(h.reasons) > 0; told != (e.why != "") || told && !bytes.Contains([]byte(h.reasons[0]), []byte(e.why)) {
				t.Fatalf("%q: told %q", e.why, h.reasons)
			}
		}
	}
}
