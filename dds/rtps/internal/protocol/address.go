package protocol

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// path is one of the addresses that a peer announced.
type path struct {
	meta, data wire.Locator // where discovery and samples go
	offsets    [3]int64     // of the numbers that the readers of discovery see there: of publications, subscriptions, liveliness
	right      uint8        // bits of the readers that have answered with these numbers
}

// Bounds of what is done for a peer that has not proved that it receives at its address (RT5).
const (
	unprovedTimes = 3  // bytes that leave for a byte of it that was received
	headerBytes   = 28 // of IPv4 and UDP, which count in both directions
	provedWithin  = 2 * time.Minute
	guesses       = 32  // answers with wrong numbers for one address within guessTime; then the address is ignored until its end
	allGuesses    = 256 // … for all addresses; then no peer is proved by short numbers until its end
	guessTime     = time.Minute

	maxOwn = 16 // addresses of a peer's endpoints beyond those of the peer
)

// guessed counts answers with wrong numbers, of peers that have proved nothing, from the first one
// on until guessTime has passed.
type guessed struct {
	all   int
	of    map[netip.Addr]int
	until int64
}

// shared reports an address that is not of one host, where no participant receives by unicast
// (RT5).
func shared(l wire.Locator) bool {
	a := l.Addr().Unmap()
	return a.IsMulticast() || a.IsUnspecified() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// ignored reports an address that is not used: a shared one, or one of which too many wrong numbers
// came.
func (p *Participant) ignored(l wire.Locator) bool {
	return shared(l) || p.now < p.guessed.until && p.guessed.of[l.Addr()] >= guesses
}

// pathsOf returns the addresses of a peer, those of the host first that a message came from.
func (p *Participant) pathsOf(a *wire.Participant, from wire.Locator) (all []path) {
	for _, meta := range a.Metatraffic {
		c := path{meta: meta, data: meta}
		if at := slices.IndexFunc(a.Default, sameHost(meta)); at >= 0 { // samples go to the host that proves that it receives
			c.data = a.Default[at]
		}
		c.offsets = p.offsets(a, meta)
		all = append(all, c)
	}
	here := sameHost(from)
	slices.SortStableFunc(all, func(a, b path) int {
		switch {
		case here(a.meta) == here(b.meta):
			return 0
		case here(a.meta):
			return -1
		}
		return 1
	})
	return all
}

func sameHost(a wire.Locator) func(wire.Locator) bool {
	return func(b wire.Locator) bool { return a.Addr().Unmap() == b.Addr().Unmap() }
}

// fastDDS is the vendor whose readers take a step for each number that a writer does not have any
// more.
var fastDDS = [2]byte{1, 15}

// offsets are added to the numbers of discovery that a peer sees at an address. Only a peer that
// receives there knows them, and proves so by its answers. They stay the same for an address: a
// peer that was forgotten, and has not forgotten this participant, goes on with the numbers that it
// knows. Of Fast DDS they are short, and the answers of two readers are the proof.
func (p *Participant) offsets(a *wire.Participant, at wire.Locator) (all [3]int64) {
	h := sha256.New()
	h.Write(p.cfg.Secret[:])
	h.Write(a.Prefix[:])
	h.Write([]byte(at.String()))
	sum := h.Sum(nil)
	for i := range all {
		all[i] = int64(binary.LittleEndian.Uint64(sum[8*i:])>>2) | 1<<32
		if a.Vendor == fastDDS {
			all[i] = all[i]&0xffff + guesses
		}
	}
	return all
}

// discovery are the writers of discovery, in the order of a path's offsets.
func (p *Participant) discovery() [3]*Writer {
	return [3]*Writer{p.publications, p.subscriptions, p.liveliness}
}

// short reports that the numbers of discovery of a peer have few bits.
func (o *peer) short() bool { return o.Vendor == fastDDS }

// use has a peer sent what is for it at one of its addresses. What was put together for the address
// before leaves for that one, with its numbers: an answer to them is its proof.
func (p *Participant) use(o *peer, at int) {
	p.flush(&o.meta)
	p.flush(&o.data)
	o.at = at
	o.meta.to, o.data.to = o.paths[at].meta, o.paths[at].data
	for i, w := range p.discovery() {
		for _, r := range w.proxies {
			if r.of == o && !r.begun {
				r.offset = o.paths[at].offsets[i]
			}
		}
	}
}

// try introduces this participant at an address of a peer that has proved nothing, and asks it for
// the proof.
func (p *Participant) try(o *peer, at int) {
	p.use(o, at)
	p.introduce(o)
	for _, w := range p.discovery() {
		for _, r := range w.proxies {
			if r.of == o {
				w.beat(r)
			}
		}
	}
}

// verify reports whether the answer of a reader of discovery has a number that it was sent at one
// of its addresses, or none yet (RT5).
func (p *Participant) verify(w *Writer, r *remoteReader, number int64) bool {
	o := r.of
	if number <= 1 { // a reader that was sent nothing yet says 0 or 1
		return true
	}
	all := p.discovery()
	which := slices.Index(all[:], w)
	for at := range o.paths {
		c := &o.paths[at]
		if n := number - c.offsets[which]; n < r.start || n > w.next() {
			continue
		}
		r.offset = c.offsets[which]
		if c.right |= 1 << which; !o.proved || at != o.at {
			p.prove(o, at)
		}
		return true
	}
	if !o.proved {
		p.wrong(o)
	}
	return o.proved
}

// prove takes an address of a peer as proved, if enough of its readers have answered.
func (p *Participant) prove(o *peer, at int) {
	if o.short() {
		if o.paths[at].right&3 != 3 || p.now < p.guessed.until && p.guessed.all >= allGuesses {
			return
		}
	}
	first := !o.proved
	p.use(o, at) // within the budget, for the address before
	o.proved = true
	p.readdress(o)
	o.heard(p)
	if !first {
		return
	}
	for _, r := range []*Reader{p.publicationsOf, p.subscriptionsOf, p.livelinessOf} {
		for _, rw := range r.writers {
			if rw.of == o {
				rw.ask()
			}
		}
	}
}

// wrong counts an answer with a wrong number for all addresses of a peer, which is forgotten if one
// of them has too many.
func (p *Participant) wrong(o *peer) {
	g := &p.guessed
	if p.now >= g.until {
		*g = guessed{of: map[netip.Addr]int{}, until: p.now + int64(guessTime)}
	}
	if g.all >= allGuesses {
		p.forget(o)
		return
	}
	g.all++
	var hosts []netip.Addr
	for _, c := range o.paths {
		if a := c.meta.Addr(); !slices.Contains(hosts, a) {
			hosts = append(hosts, a)
			g.of[a]++
		}
	}
	for _, q := range slices.Clone(p.peers) {
		if !q.proved && slices.ContainsFunc(q.paths, func(c path) bool { return g.of[c.meta.Addr()] >= guesses }) {
			p.forget(q)
		}
	}
}

// outboxOf is where messages for an endpoint of a peer are put together: at an address of its own,
// if it is of the host that the peer has proved (RT5).
func (p *Participant) outboxOf(o *peer, e *wire.Endpoint) *outbox {
	if e.GUID.Entity.Builtin() {
		return &o.meta
	}
	at := slices.IndexFunc(e.Unicast, sameHost(o.meta.to))
	if at < 0 || e.Unicast[at] == o.data.to {
		return &o.data
	}
	to := e.Unicast[at]
	for _, own := range o.own {
		if own.to == to {
			return own
		}
	}
	if len(o.own) >= maxOwn {
		return &o.data
	}
	own := &outbox{to: to, target: o.Prefix, of: o}
	o.own = append(o.own, own)
	return own
}

// readdress has the proxies of a peer's endpoints use its addresses as they are now.
func (p *Participant) readdress(o *peer) {
	for _, w := range p.writers {
		for _, r := range w.proxies {
			if r.of == o {
				r.out = p.outboxOf(o, &r.Endpoint)
			}
		}
	}
	for _, r := range p.readers {
		for _, rw := range r.writers {
			if rw.of == o {
				rw.out = p.outboxOf(o, &rw.Endpoint)
			}
		}
	}
}

// pay has a peer that has proved nothing sent as much as its message pays for. A message pays once.
func (p *Participant) pay(o *peer) {
	if !o.proved {
		o.budget, p.credit = o.budget+p.credit, 0
	}
}

// put sends a message to a peer. A peer whose address is not verified gets no more than the bound
// of RT5.
func (p *Participant) put(o *peer, to wire.Locator, message []byte) {
	if !o.proved {
		if len(message)+headerBytes > o.budget {
			return
		}
		o.budget -= len(message) + headerBytes
	}
	p.host.Send(to, message)
}

// introduce says to a peer that this participant is there.
func (p *Participant) introduce(o *peer) {
	p.put(o, o.meta.to, p.announcementOf())
}
