package sim

import (
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// group is what the world knows of a subgroup: what its senders accepted, and how far its members are.
type group struct {
	sg      views.Subgroup
	index   int       // of the subgroup
	ledgers []*ledger // by sender rank
	readers []*reader // by place among the members
	order   []place   // ordered mode: what was delivered, as far as the member that is ahead
}

// reader is how far one member is.
type reader struct {
	node *node
	next []int // by sender rank: claims that were delivered, or passed over because they were aborted
	at   int   // deliveries
	// open is since when its application takes whatever comes.
	open time.Duration
}

// place is a delivered message's place in the order.
type place struct {
	seq    order.Seq
	sender order.SenderRank
	number int
}

// ledger is what one sender's application did, in the order of its claims.
type ledger struct {
	key     uint64
	claims  []claim
	settled int // claims before this one are committed or aborted
}

type claim struct {
	bytes int
	state state
	ready time.Duration // when it and all before it were committed or aborted: from then on the loop may publish it
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

// expect is the claim that a reader must be given next by a sender, or false if there is none.
func (g *group) expect(r *reader, s order.SenderRank) (number int, ok bool) {
	l := g.ledgers[s]
	for r.next[s] < len(l.claims) && l.claims[r.next[s]].state == aborted {
		r.next[s]++
	}
	return r.next[s], r.next[s] < len(l.claims) && l.claims[r.next[s]].state == committed
}
