package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
)

// inbox takes what a subgroup delivers at one member, shows it to the checkers, and is full now and then.
type inbox struct {
	world  *world
	group  *group
	reader *reader
	place  int // of the member in the subgroup
	plan   Inbox
	random *rand.Rand
	shut   time.Duration // takes nothing before
}

// delivery is one message at one member.
type delivery struct {
	group  *group
	reader *reader
	place  int // of the member in the subgroup
	sender order.SenderRank
	multicast.Message
	number int // of its claim, if it was one that could be expected; set by fifoChecker
}

// node is where the message is delivered.
func (d *delivery) node() *node { return d.reader.node }

func newInbox(w *world, g *group, place int) *inbox {
	rd := g.readers[place]
	return &inbox{
		world: w, group: g, reader: rd, place: place, plan: w.plan.Inboxes[rd.node.rank][g.index],
		random: rand.New(rand.NewPCG(w.plan.Seed, 10000+uint64(rd.node.rank)<<8+uint64(g.index))),
	}
}

// Deliver implements multicast.Receiver.
func (in *inbox) Deliver(run []multicast.Message) (taken int) {
	w := in.world
	w.net.Seep(in.reader.node.id) // an upcall takes time, in which others go on
	take := in.room(len(run))
	for k := range run {
		d, err := in.delivery(&run[k])
		w.judge("content", err)
		for _, c := range w.checkers {
			if err == nil {
				w.judge(c.name(), c.offered(w, d))
			}
			if err == nil && k < take {
				w.judge(c.name(), c.taken(w, d))
			}
		}
		if err != nil || w.result.Err != nil {
			return 0
		}
		if k < take {
			in.took(d)
		}
	}
	w.sometimes(RunRefused, take == 0)
	w.sometimes(RunTakenInPart, take > 0 && take < len(run))
	w.sometimes(LongRun, len(run) >= 30)
	if w.lie == TakesAgain && take > 1 {
		return take - 1
	}
	return take
}

// MaxRun implements multicast.Receiver.
func (in *inbox) MaxRun() int { return in.plan.MaxRun }

// room is how much of a run the application takes.
func (in *inbox) room(run int) int {
	if in.world.now < in.shut {
		in.reader.node.due = min(in.reader.node.due, in.shut)
		return 0
	}
	if in.plan.ShutIn == 0 || in.random.IntN(in.plan.ShutIn) > 0 {
		return run
	}
	in.shut = in.world.now + time.Duration(in.random.Int64N(int64(in.plan.Shut)))
	in.reader.open = in.shut
	in.reader.node.due = min(in.reader.node.due, in.shut)
	return in.random.IntN(run + 1)
}

func (in *inbox) delivery(m *multicast.Message) (*delivery, error) {
	r, ok := in.world.view.RankOf(m.Sender)
	s := slices.Index(in.group.sg.Senders, r)
	if !ok || s < 0 {
		return nil, violated("content", "rank %d: subgroup %q: seq %d comes from node %d, which is no sender", in.reader.node.rank, in.group.sg.Name, m.Seq, m.Sender)
	}
	return &delivery{group: in.group, reader: in.reader, place: in.place, sender: order.SenderRank(s), Message: *m}, nil
}

// took counts a message that the application took.
func (in *inbox) took(d *delivery) {
	w, n := in.world, in.reader.node
	w.result.Deliveries++
	w.progress = w.now
	w.undone--
	in.reader.at++
	w.event(taken, n.rank, uint64(d.group.index), uint64(d.Seq), uint64(d.number), uint64(len(d.Data)))
	if w.trace.out != nil {
		w.print(n.rank, "%s:%d %d#%d", d.group.sg.Name, d.Seq, d.sender, d.number)
	}
	w.sometimes(EmptyMessage, len(d.Data) == 0)
	w.sometimes(LargestMessage, len(d.Data) == d.group.sg.RingBytes/2)
	w.sometimes(UnorderedDelivery, d.group.sg.Mode != 0)
	for s, l := range d.group.ledgers {
		w.sometimes(DeliveredPastOpenClaim, order.SenderRank(s) != d.sender && l.settled < len(l.claims))
	}
}
