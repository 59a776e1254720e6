package protocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/testutil"
)

// modelWriter is a writer as doc.go describes it: what it has written, and which of it is the
// history.
type modelWriter struct {
	*Writer
	written []Change // by the number, from 1
	history []int64
}

func (m *modelWriter) ends(seq int64) bool {
	s := m.written[seq-1].Status
	return s != 0 && s&wire.Disposed == 0
}

func (m *modelWriter) write(c Change) {
	m.written = append(m.written, c)
	if seq := int64(len(m.written)); m.Endpoint.QoS.Durability > qos.Volatile {
		m.remember(seq, c.Key)
	}
	m.Write(c)
}

// remember adds a number to the history. The end of an instance takes no place of a sample, and
// goes with the samples before it.
func (m *modelWriter) remember(seq int64, key string) {
	samples := func(of func(key string) bool) (n int) {
		for _, s := range m.history {
			if !m.ends(s) && of(m.written[s-1].Key) {
				n++
			}
		}
		return n
	}
	same := func(o string) bool { return o == key }
	if m.ends(seq) && samples(same) == 0 {
		return
	}
	m.history = append(m.history, seq)
	service := m.Endpoint.QoS.Service
	for !service.History.All && samples(same) > max(service.History.Depth, 1) {
		m.drop(key)
	}
	for l := service.Limits.Samples; l > 0 && samples(func(string) bool { return true }) > l; {
		m.drop(m.written[m.history[0]-1].Key)
	}
}

// drop drops the first sample of an instance, and the ends that are first then.
func (m *modelWriter) drop(key string) {
	for first := true; ; first = false {
		i := slices.IndexFunc(m.history, func(s int64) bool { return m.written[s-1].Key == key })
		if i < 0 || !first && !m.ends(m.history[i]) {
			return
		}
		m.history = slices.Delete(m.history, i, i+1)
	}
}

// modelMatch is what a reader that matches a writer is to get: everything from live on and, of what
// was written before, the history, of which some may be replaced before it is sent.
type modelMatch struct {
	w       *modelWriter
	reader  wire.Endpoint
	live    int64
	history []int64
}

// lasting reports whether the reader gets a history. Heartbeats then name samples before they are
// sent, and the reader may request a sample that is in flight.
func (m *modelMatch) lasting() bool {
	return m.w.Endpoint.QoS.Durability > qos.Volatile && m.reader.QoS.Durability > qos.Volatile
}

func (m *modelMatch) of(writer wire.EntityID, target wire.Prefix, reader wire.EntityID) bool {
	return m.w.Endpoint.GUID.Entity == writer && m.reader.GUID == wire.GUID{Prefix: target, Entity: reader}
}

// check compares what a reader has got with what it is to get. Whole says that nothing is on its
// way.
func (m *modelMatch) check(t *testing.T, got []Sample, whole bool) {
	t.Helper()
	last, have := int64(0), map[int64]bool{}
	for _, s := range got {
		if s.Sequence <= last || s.Sequence > int64(len(m.w.written)) {
			t.Fatalf("RT1: sample %d after %d, of %d", s.Sequence, last, len(m.w.written))
		}
		c := m.w.written[s.Sequence-1]
		if s.Status != c.Status || s.Source != c.Source || s.IsKey != (c.Status != 0) || !bytes.Equal(s.Payload, c.Payload) {
			t.Fatalf("RT1: sample %d is another one", s.Sequence)
		}
		if s.Sequence < m.live && !slices.Contains(m.history, s.Sequence) {
			t.Fatalf("sample %d is neither of the history nor later than it", s.Sequence)
		}
		last, have[s.Sequence] = s.Sequence, true
	}
	if !whole {
		return
	}
	for _, seq := range m.history {
		if slices.Contains(m.w.history, seq) && !have[seq] {
			t.Fatalf("RT1: sample %d of the history has not come", seq)
		}
	}
	for seq := m.live; seq <= int64(len(m.w.written)); seq++ {
		if !have[seq] {
			t.Fatalf("RT1: sample %d of those from %d to %d has not come", seq, m.live, len(m.w.written))
		}
	}
}

// modelHost is the participant with the writers.
type modelHost struct {
	*host
	t       *testing.T
	writers []*modelWriter
	matches []*modelMatch
	sent    map[string]int // times that a sample was sent to a reader
}

func (m *modelHost) ReaderMatched(w *Writer, e wire.Endpoint) {
	i := slices.IndexFunc(m.writers, func(o *modelWriter) bool { return o.Writer == w })
	if i < 0 { // it is being opened
		m.writers, i = append(m.writers, &modelWriter{Writer: w}), len(m.writers)
	}
	match := &modelMatch{w: m.writers[i], reader: e, live: int64(len(m.writers[i].written)) + 1}
	if match.lasting() {
		match.history = slices.Clone(match.w.history)
	}
	m.matches = append(m.matches, match)
}

func (m *modelHost) ReaderGone(w *Writer, e wire.Endpoint) {
	m.matches = slices.DeleteFunc(m.matches, func(o *modelMatch) bool { return o.w.Writer == w && o.reader.GUID == e.GUID })
}

// Send looks at what the writers say. A GAP names nothing that its reader is to get.
func (m *modelHost) Send(to wire.Locator, message []byte) {
	d, err := wire.NewDecoder(message)
	if err != nil {
		m.t.Fatal(err)
	}
	var target wire.Prefix
	for {
		s, ok, err := d.Next()
		if err != nil {
			m.t.Fatal(err)
		}
		if !ok {
			break
		}
		switch s.Kind {
		case wire.KindInfoTarget:
			target, _ = s.Target()
		case wire.KindData:
			d, _ := s.Data()
			for _, o := range m.matches {
				if o.of(d.Writer, target, d.Reader) && !o.lasting() {
					m.sent[fmt.Sprint(target, d.Reader, d.Writer, d.Sequence)]++
				}
			}
		case wire.KindHeartbeat:
			if _, err := s.Heartbeat(); err != nil {
				m.t.Fatal(err)
			}
		case wire.KindGap:
			g, _ := s.Gap()
			for _, o := range m.matches {
				if o.of(g.Writer, target, g.Reader) && g.Numbers.Base > o.live {
					m.t.Fatalf("a GAP from %d to %d, and the reader is to get all from %d on", g.Start, g.Numbers.Base, o.live)
				}
			}
		}
	}
	m.host.Send(to, message)
}

// Random writers and readers of any policies, which come and go, over a network of any kind: every
// reader gets exactly what its match says, whenever its host takes and acknowledges it. Over a
// network that loses nothing, nothing is sent twice to a reader without a history.
func TestReadersGetWhatTheirMatchesSay(t *testing.T) {
	for lap := range testutil.Seeds(9, 60) {
		seed := testutil.Seed(t) + uint64(lap)
		t.Run(fmt.Sprintf("lap=%d", lap), func(t *testing.T) { matchesOn(t, seed, []float64{0, 0.05, 0.3}[lap%3]) })
	}
}

func matchesOn(t *testing.T, seed uint64, loss float64) {
	w := newWorld(t, seed, loss)
	w.steady = loss == 0
	rng := rand.New(rand.NewPCG(seed, 2))
	small := func(c *Config) { c.WindowBytes, c.FragmentBytes, c.MessageBytes = 4000, 400, 1400 }
	a := &modelHost{host: w.host(1, small), t: t, sent: map[string]int{}}
	a.p.host = a
	others := []*host{w.host(2, nil), w.host(3, nil)}
	readers := make([]*Reader, len(others))
	pickOne := func(n int) bool { return rng.IntN(n) == 0 }
	set := func() (s qos.Set) {
		if pickOne(2) {
			s.Durability = qos.TransientLocal
		}
		if pickOne(3) {
			s.Reliability.Kind = qos.BestEffort
		}
		s.Service.History = []qos.History{qos.KeepAll(), qos.KeepLast(1), qos.KeepLast(2)}[rng.IntN(3)]
		s.Service.Limits.Samples = []int{0, 5}[rng.IntN(2)]
		return s
	}
	acknowledge := func(all bool) {
		for _, h := range others {
			for g, rw := range h.by {
				if got := h.got[g]; len(got) > 0 && (all || pickOne(3)) {
					rw.Acknowledge(w.now, got[len(got)-1-rng.IntN(min(len(got), 3))*map[bool]int{true: 0, false: 1}[all]].Sequence)
				}
			}
			h.p.Flush()
		}
	}
	for _, h := range others {
		h.manual, h.anew = true, true
	}
	for range 600 {
		switch k := rng.IntN(len(others)); rng.IntN(40) {
		case 0:
			if len(a.writers) < 3 {
				at := len(a.writers)
				out := a.p.OpenWriter(w.now, endpoint(set()), true)
				if len(a.writers) == at {
					a.writers = append(a.writers, &modelWriter{Writer: out})
				}
			}
		case 1:
			if readers[k] == nil {
				readers[k] = others[k].p.OpenReader(w.now, endpoint(set()), true)
			} else if pickOne(3) {
				others[k].p.CloseReader(w.now, readers[k])
				readers[k] = nil
			}
		case 2:
			others[k].full = !w.steady && !others[k].full
		case 3, 4, 5, 6, 7, 8:
			acknowledge(false)
		default:
			if len(a.writers) == 0 {
				break
			}
			if out := a.writers[rng.IntN(len(a.writers))]; out.Room() {
				n := len(out.written)
				c := Change{Source: int64(n+1) * 1000, Key: fmt.Sprint(rng.IntN(3)), Payload: payload(n, sizes(rng.IntN(30)))}
				if pickOne(6) {
					c.Status, c.Payload = []wire.Status{wire.Disposed, wire.Unregistered, wire.Disposed | wire.Unregistered}[rng.IntN(3)], []byte("key.")
				}
				out.write(c)
			}
		}
		if pickOne(2) {
			w.step()
		}
	}
	for _, h := range others {
		h.full = false
	}
	w.until("all is acknowledged", time.Minute, func() bool {
		acknowledge(true)
		return !slices.ContainsFunc(a.writers, func(o *modelWriter) bool { return !o.Acknowledged() })
	})
	w.during(10 * time.Second) // new matches
	w.until("all is acknowledged", time.Minute, func() bool {
		acknowledge(true)
		return !slices.ContainsFunc(a.writers, func(o *modelWriter) bool { return !o.Acknowledged() })
	})
	if len(a.matches) == 0 {
		t.Log("nothing matches")
	}
	for _, m := range a.matches {
		h := others[slices.IndexFunc(others, func(h *host) bool { return h.p.cfg.Prefix == m.reader.GUID.Prefix })]
		reliable := m.w.Endpoint.QoS.Reliability.Kind == qos.Reliable && m.reader.QoS.Reliability.Kind == qos.Reliable
		m.check(t, h.got[m.w.Endpoint.GUID], reliable)
		for seq := m.live; !m.lasting() && seq <= int64(len(m.w.written)); seq++ {
			sample := fmt.Sprint(m.reader.GUID.Prefix, m.reader.GUID.Entity, m.w.Endpoint.GUID.Entity, seq)
			if len(m.w.written[seq-1].Payload) <= a.p.cfg.FragmentBytes && a.sent[sample] == 0 {
				t.Fatalf("sample %d was never sent to reader %v", seq, m.reader.GUID)
			}
		}
	}
	for what, n := range a.sent {
		if w.steady && n > 1 {
			t.Fatalf("sample %s was sent %d times", what, n)
		}
	}
}
