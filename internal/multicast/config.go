package multicast

import (
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// Config is one member's part in one subgroup of a view, and what is left of its part in the view
// before.
type Config struct {
	View     *views.View
	Subgroup views.Subgroup // one of the view's
	Columns  Columns        // of the subgroup
	Table    *sst.Table
	Receiver Receiver
	Keeper   Keeper // the receiver, if it keeps messages and the subgroup's mode is Ordered; otherwise nil
	Bodies   Bodies // nil: there are no large messages
	Tuning   Tuning
	Clock    func() order.Time // for persistent mode: later messages of this member have later times, or the same one
	// Stopped is what is wrong with what a member has for good, if it stopped the view already: it
	// is less than Told. nil: nothing is known.
	Stopped func(r order.Rank) error
	// Latest is, for persistent mode, the latest time that a message may have, and whether that is
	// known yet; until then messages with a later one wait. nil: any time.
	Latest func() (t order.Time, known bool)
	Stats  *Stats // goes on counting; nil: begins anew

	// Carry is the ring of the view before, or a shelf: what is not delivered of it moves to the
	// ring of this view, if this member sends.
	Carry *smc.Sender
	// Delivered is how far the view before delivers what this member published there: its trim.
	Delivered order.Index
	// Ahead is what Subgroup.Ahead of the view before returned.
	Ahead []Ahead
}

// Receiver takes what a subgroup delivers. It is called on the loop and must not keep Data.
type Receiver interface {
	// Deliver takes a run of messages in order and returns how many of them it took. The other ones
	// are offered again at a later step, so that a full queue holds up its own subgroup and nothing
	// else.
	Deliver(run []Message) int
	// MaxRun is how many messages it wants at once; 0 is all that can be delivered.
	MaxRun() int
}

// Keeper is a receiver that reads the data of messages after it took them, until it lets them go
// (M12). It is called on the loop.
type Keeper interface {
	// Kept returns the position of the first message of this view that the receiver keeps, and NoSeq
	// if it keeps none. What was let go is not kept again. A receiver that lets messages go between
	// two steps wakes the loop.
	Kept() order.Seq
	// LetGo has the receiver keep no message: the memory of the view is about to go.
	LetGo()
}

// NoSeq is a position behind all others.
const NoSeq order.Seq = math.MaxUint64

// Tuning switches parts of the protocol off.
type Tuning = extension.Tuning

// Stats counts what a subgroup did. W: the loop. R: any goroutine.
type Stats struct {
	Sent, SentBytes           Count // messages published here
	LargeSent, LargeDelivered Count // the large messages among them
	NullsSent                 Count
	Delivered, DeliveredBytes Count // messages delivered here
	NullsDelivered            Count
	SendBatch                 Histogram // messages per publish
	ReceiveBatch              Histogram // indexes per sender and step that found any
	DeliverBatch              Histogram // messages per run
}

// Count is a counter with one writer.
type Count struct{ v atomic.Uint64 }

func (c *Count) add(n uint64) { c.v.Store(c.v.Load() + n) }

// Load is the count now.
func (c *Count) Load() uint64 { return c.v.Load() }

// HistogramBuckets is the number of buckets: bucket k counts batches of at most 2^k.
const HistogramBuckets = 21

// Histogram counts batches by size, with one writer.
type Histogram struct {
	Buckets [HistogramBuckets]Count
	Sum     Count
	Batches Count
}

func (h *Histogram) observe(n uint64) {
	h.Buckets[min(bits.Len64(n-1), HistogramBuckets-1)].add(1)
	h.Sum.add(n)
	h.Batches.add(1)
}
