package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// ledger is what the application of one process did with the outbox of one declaration, in the
// order of its claims.
type ledger struct {
	proc    *process
	decl    int
	key     uint64
	claims  []claim
	settled int // claims before this one are committed or aborted
	// ordered mode: claims before this one have their place in the order, were let go, or were
	// aborted
	low     int
	futures []promised
	bulk    *app // whose large message waits for its place; nil: none does
	// recorded counts the claims, from the first, whose messages the process's own member has
	// recorded, or that were aborted.
	recorded int
}

// catchUp notes that a large message has its place, if it has: others may be given it before its
// application looks.
func (l *ledger) catchUp(now time.Duration) {
	if l.bulk != nil {
		l.bulk.lookForPlace(now)
	}
}

type claim struct {
	bytes int
	data  []byte // of an application that is not drawn; nil: it is filled
	state state
	view  order.ViewID // in which it was made
	// when it and all before it were committed or aborted: from then on the loop may publish it
	ready time.Duration
	place order.Version // ordered mode: in the order
	// Where applications see what is on every disk: where the process's own member recorded it, and
	// whether its application saw it.
	shard    shardID
	recorded order.Version
	shown    bool
}

// promised is a future of a committed message.
type promised struct {
	number int
	future *member.Future
}

type state uint8

const (
	open state = iota
	committed
	aborted
)

// settle notes what became of a claim.
func (l *ledger) settle(number int, s state, now time.Duration) {
	l.claims[number].state = s
	for l.settled < len(l.claims) && l.claims[l.settled].state != open {
		l.claims[l.settled].ready = now
		l.settled++
	}
}

// from is the first claim from some number on that was not aborted.
func (l *ledger) from(number int) int {
	for number < len(l.claims) && l.claims[number].state == aborted {
		number++
	}
	return number
}

// committedAt reports whether a claim is a message.
func (l *ledger) committedAt(number int) bool {
	return number < len(l.claims) && l.claims[number].state == committed
}

// content reports whether data is what a claim was filled with.
func (l *ledger) content(data []byte, number int) bool {
	return l.committedAt(number) && l.claims[number].is(data, l.key, number)
}

// is reports whether data is what the claim has.
func (c *claim) is(data []byte, key uint64, number int) bool {
	if c.data != nil {
		return bytes.Equal(data, inContent(c.data, key, number))
	}
	return c.bytes == len(data) && filled(data, key, number)
}

// missing is the first message from some number on, or false if there is none.
func (l *ledger) missing(number int) (int, bool) {
	for number = l.from(number); number < l.settled; number = l.from(number + 1) {
		if l.claims[number].state == committed {
			return number, true
		}
	}
	return 0, false
}

// unplaced is the first message that has no place in the order and was not let go, or false if
// there is none.
func (l *ledger) unplaced() (int, bool) {
	for l.low < len(l.claims) && (l.claims[l.low].state == aborted || l.claims[l.low].place.View > 0 || l.letGo(l.low)) {
		l.low++
	}
	return l.missing(l.low)
}

// looksLike reports whether data is the content of any message.
func (l *ledger) looksLike(data []byte) bool {
	for number := range l.claims {
		if l.content(data, number) {
			return true
		}
	}
	return false
}

// flow is what one process was given of what another one sent in a declaration, over all views.
type flow struct {
	ledger *ledger
	next   int // claims that it was given, or that were aborted
	since  order.ViewID
	// until it is given something of view since: it was not always in a subgroup with the sender:
	// something before next may be missing, and next may be too low
	loose bool
}

// group is one subgroup of one view: what was delivered there.
type group struct {
	record  *viewRecord
	sg      views.Subgroup
	index   int // of the subgroup
	decl    int
	senders []*ledger // by sender rank
	readers []*reader // by place among the members
	// ordered mode: what was delivered, as far as the member that is ahead, but for messages of a
	// member that lies
	order  []place
	latest []int // by sender rank: the number of the last message in it
}

// reader is how far one member is.
type reader struct {
	group  *group
	place  int
	proc   *process
	flows  []*flow       // by sender rank
	at     int           // deliveries of messages from members that do not lie
	counts []int         // by sender rank
	closed bool          // it was given something of a later view, so that this one is over for it
	open   time.Duration // since when its application takes whatever comes
	copies bool          // what it is given is not where it was received
}

// place is a delivered message's place in the order.
type place struct {
	seq    order.Seq
	sender order.SenderRank
	number int // or unknown
}

func newGroup(w *world, r *viewRecord, i int, sg views.Subgroup) *group {
	g := &group{record: r, sg: sg, index: i, decl: w.declaration(sg)}
	for _, rank := range sg.Senders {
		g.senders, g.latest = append(g.senders, r.procs[rank].ledgers[g.decl]), append(g.latest, unknown)
	}
	for k, rank := range sg.Members {
		rd := &reader{group: g, place: k, proc: r.procs[rank], counts: make([]int, len(sg.Senders))}
		// senders or not: a member that is silent in this view may have sent before, and may send
		// again
		for _, from := range sg.Members {
			if f := rd.proc.flow(w, r, r.procs[from].ledgers[g.decl]); slices.Contains(sg.Senders, from) {
				rd.flows = append(rd.flows, f)
			}
		}
		g.readers = append(g.readers, rd)
	}
	return g
}

// flow continues what a process was given of a sender. It begins anew if they were not together in
// the view before, while the sender was there: only the sender itself is given all that it sends.
// It also does if the process left a shard whose tail it is not given.
func (p *process) flow(w *world, r *viewRecord, l *ledger) *flow {
	f := p.flows[l]
	if f == nil {
		f = &flow{ledger: l}
		p.flows[l] = f
	}
	if before := w.before(r); p != l.proc && before != nil && before.has(l.proc) && (!before.together(p, l) || r.moved(w, p, l.decl)) {
		f.loose, f.since = true, r.view.ID
	}
	return f
}

// together reports whether two processes were in one subgroup of a declaration.
func (r *viewRecord) together(p *process, l *ledger) bool {
	for _, g := range r.groups {
		if g.decl == l.decl && g.reader(p) != nil && g.reader(l.proc) != nil {
			return true
		}
	}
	return false
}

// reader is a process's part in the group, or nil.
func (g *group) reader(p *process) *reader {
	for _, rd := range g.readers {
		if rd.proc == p {
			return rd
		}
	}
	return nil
}

// delivery is one message at one member.
type delivery struct {
	group  *group
	reader *reader
	sender order.SenderRank
	multicast.Message
	number int // of its claim, or unknown
	// it is taken now; else those before it may not be either, and which one it is cannot be said
	now bool
}

func (d *delivery) proc() *process  { return d.reader.proc }
func (d *delivery) ledger() *ledger { return d.group.senders[d.sender] }
func (d *delivery) flow() *flow     { return d.reader.flows[d.sender] }

func (d *delivery) ordered() bool { return d.group.sg.Mode != views.Unordered }

// unknown is the number of a message of which cannot be said which one it is.
const unknown = -1

// identify finds out which claim of its sender a message is. Contents of 8 bytes and more tell it.
// One with a shorter content is what this member is to be given next of the sender, if it was
// always together with it; else whatever others found it to be.
func (d *delivery) identify() {
	l, g := d.ledger(), d.group
	switch k := d.reader.at; {
	case l.spoiled():
		d.number = unknown
	case len(d.Data) >= 8:
		d.number, _ = numberOf(d.Data, l.key)
	case l.proc == d.proc() && l.recordedAt(d.Version()) != unknown:
		d.number = l.recordedAt(d.Version())
	case !d.flow().loose:
		d.number = l.from(d.flow().next)
	case d.ordered() && k < len(g.order):
		d.number = g.order[k].number
	case d.ordered() && g.latest[d.sender] != unknown:
		d.number = l.from(g.latest[d.sender] + 1)
	default:
		d.number = unknown
	}
}

// String is for errors.
func (d *delivery) String() string {
	return fmtDelivery(d)
}
