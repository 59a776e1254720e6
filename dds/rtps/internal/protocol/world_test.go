package protocol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/testutil"
)

// Participants open and close writers and readers, are cut off, end, are killed, and start again
// with the same prefix, within their lease or after it, over a network of any kind. When they are
// left alone, each knows the endpoints that the others have, and no others, those match whose
// policies do, and samples that are written then arrive.
func TestDiscoveryComesToWhatThereIs(t *testing.T) {
	seed := testutil.Seed(t)
	for lap := range testutil.Seeds(6, 30) {
		t.Run(fmt.Sprintf("lap=%d", lap), func(t *testing.T) { discoverOn(t, seed+uint64(lap), []float64{0, 0.05, 0.25}[lap%3]) })
	}
}

func discoverOn(t *testing.T, seed uint64, loss float64) {
	w := newWorld(t, seed, loss)
	rng := rand.New(rand.NewPCG(seed, 3))
	hosts := []*host{w.host(1, nil), w.host(2, nil), w.host(3, nil)}
	began := make([]int64, len(hosts))
	draw := func(reader bool) wire.Endpoint {
		e := endpoint(qos.Set{})
		e.Topic += fmt.Sprint(rng.IntN(3))
		e.QoS.Partitions = [][]string{nil, {"a"}, {"a", "b"}, {"*"}}[rng.IntN(4)]
		if reader == (rng.IntN(2) == 0) {
			e.QoS.Durability = qos.TransientLocal
		}
		return e
	}
	start := func(k int) {
		h := hosts[k]
		h.p, h.down = New(h.p.cfg, h, w.now), false
		clear(h.got)
		clear(h.by)
		began[k] = w.now
	}
	for k := range began {
		began[k] = w.now
	}
	for range 30 {
		k := rng.IntN(len(hosts))
		h := hosts[k]
		switch n := rng.IntN(10); {
		case h.down && n < 5:
			start(k)
		case h.down:
		case n < 3:
			h.p.OpenWriter(w.now, draw(false), true)
		case n < 6:
			h.p.OpenReader(w.now, draw(true), true)
		case n == 6 && len(h.p.writers) > 0:
			h.p.CloseWriter(w.now, h.p.writers[rng.IntN(len(h.p.writers))])
		case n == 7 && len(h.p.readers) > 0:
			h.p.CloseReader(w.now, h.p.readers[rng.IntN(len(h.p.readers))])
		case n == 8:
			h.p.Close(w.now)
			h.down = true
			if loss == 0 {
				w.during(5 * time.Millisecond)
				for _, o := range hosts {
					if !o.down && o.p.byID[h.p.cfg.Prefix] != nil {
						t.Fatal("a participant that said that it ends is known")
					}
				}
			}
		case n == 9 && w.now-began[k] > int64(defaultLease): // its peers have received more from it than from a new one
			h.down = true
			if rng.IntN(2) == 0 {
				w.during(time.Duration(rng.IntN(3000)) * time.Millisecond)
				start(k)
			}
		}
		w.during(time.Duration(rng.IntN(2000)) * time.Millisecond)
	}
	for k, h := range hosts {
		if h.down && rng.IntN(2) == 0 {
			start(k)
		}
	}
	w.during(defaultLease + time.Second)
	for _, h := range hosts {
		for _, o := range hosts {
			if !h.down && o.down && h.p.byID[o.p.cfg.Prefix] != nil {
				t.Fatal("a participant is known after its lease")
			}
		}
	}
	hosts = slices.DeleteFunc(hosts, func(h *host) bool { return h.down })
	for end := w.now + int64(2*time.Minute); known(hosts) != ""; w.step() {
		if w.now > end {
			t.Fatal(known(hosts))
		}
	}
	w.during(15 * time.Second)
	if why := known(hosts); why != "" {
		t.Fatal(why)
	}
	for _, h := range hosts {
		clear(h.got)
		for _, out := range h.p.writers {
			for i := range 20 {
				out.Write(Change{Source: int64(i) * 1000, Key: "k", Payload: payload(i, sizes(i))})
			}
		}
	}
	w.until("all have come", time.Minute, func() bool {
		for _, h := range hosts {
			for _, all := range h.p.proxies { // host.by has one of several readers only
				for _, rw := range all {
					rw.Acknowledge(w.now, rw.delivered)
				}
			}
			h.p.Flush()
		}
		for _, h := range hosts {
			if slices.ContainsFunc(h.p.writers, func(o *Writer) bool { return !o.Acknowledged() }) {
				return false
			}
		}
		return true
	})
	for _, h := range hosts {
		for g, got := range h.got {
			if n := len(h.p.proxies[g]); n != 1 {
				continue // the host keeps the samples of several readers together
			}
			inOrder(t, got, 0, 20, sizes)
		}
	}
}

// known says what a participant knows of another one that is not so.
func known(hosts []*host) string {
	of := func(p *Participant) (writers, readers []wire.Endpoint) {
		for _, w := range p.writers {
			writers = append(writers, w.Endpoint)
		}
		for _, r := range p.readers {
			readers = append(readers, r.Endpoint)
		}
		return writers, readers
	}
	same := func(all, said []wire.Endpoint) bool {
		return len(all) == len(said) && !slices.ContainsFunc(all, func(e wire.Endpoint) bool {
			i := indexOf(said, e.GUID)
			return i < 0 || said[i].Topic != e.Topic || !slices.Equal(said[i].QoS.Partitions, e.QoS.Partitions) || said[i].QoS.Durability != e.QoS.Durability
		})
	}
	for _, h := range hosts {
		if h.p.Peers() != len(hosts)-1 {
			return fmt.Sprintf("%v knows %d others", h.at, h.p.Peers())
		}
		bytes := 0
		for _, other := range hosts {
			if other == h {
				continue
			}
			o := h.p.byID[other.p.cfg.Prefix]
			if o == nil || !o.proved {
				return fmt.Sprintf("%v does not know %v", h.at, other.at)
			}
			writers, readers := of(other.p)
			if !same(writers, o.writers) || !same(readers, o.readers) {
				return fmt.Sprintf("%v: %v has the writers %+v and readers %+v, and it knows %+v and %+v", h.at, other.at, writers, readers, o.writers, o.readers)
			}
			for _, e := range append(slices.Clone(o.writers), o.readers...) {
				bytes += e.Memory()
			}
			for _, mine := range h.p.writers {
				for _, e := range readers {
					why, _, partitions := mismatch(&mine.Endpoint, &e)
					fits := mine.Endpoint.Topic == e.Topic && why == "" && !partitions
					if (mine.proxy(e.GUID) != nil) != fits {
						return fmt.Sprintf("%v: a writer of %v and a reader of %v: matches %v", h.at, mine.Endpoint, e, !fits)
					}
				}
			}
			for _, mine := range h.p.readers {
				for _, e := range writers {
					why, _, partitions := mismatch(&e, &mine.Endpoint)
					fits := mine.Endpoint.Topic == e.Topic && why == "" && !partitions
					if (mine.proxy(e.GUID) != nil) != fits {
						return fmt.Sprintf("%v: a reader of %v and a writer of %v: matches %v", h.at, mine.Endpoint, e, !fits)
					}
				}
			}
		}
		for _, o := range h.p.peers {
			bytes -= o.bytes
		}
		if bytes != 0 {
			return fmt.Sprintf("%v: %d bytes of endpoints are not counted", h.at, bytes)
		}
	}
	return ""
}
