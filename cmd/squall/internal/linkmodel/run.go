package linkmodel

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/rdmc/schedule"
)

// Result is what a run came to.
type Result struct {
	Transfers   []Outcome     // in the order in which they were given
	Time        time.Duration // until all of them were everywhere
	CrossBytes  int64         // that went from rack to rack
	Utilisation float64       // of all that the nodes' egresses could have sent in that time, what they sent; overhead counts as sent
}

// Outcome is what one transfer came to.
type Outcome struct {
	Done []time.Duration // by rank, when the node had all blocks; the root: when its last send was through
	Time time.Duration   // when the last receiver had all blocks
	Skew time.Duration   // from the first receiver that had all blocks to the last one
}

// Run plays transfers on a network. It takes about a microsecond for each block that a node
// receives.
func Run(n Network, transfers ...Transfer) (Result, error) {
	errs := []error{n.Validate()}
	for i := range transfers {
		if err := transfers[i].validate(n.Nodes); err != nil {
			errs = append(errs, fmt.Errorf("transfer %d: %w", i, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Result{}, err
	}
	if err := fits(&n, transfers); err != nil {
		return Result{}, err
	}
	r := newRun(&n, transfers)
	for i := range r.flows {
		r.ask(int32(i))
	}
	for len(r.agenda.events) > 0 {
		r.happen(r.agenda.next())
	}
	return r.result(), nil
}

// flow is a node's part in a transfer.
type flow struct {
	transfer, rank int32
	first          int32 // the flow of rank 0 of the same transfer
	node           int32
	moves          []schedule.Move
	next           int32           // of moves, the first that is not through
	turns          []schedule.Move // what the node receives, in order; only where blocks are taken in turn
	begun          int32           // of turns
	sending        bool            // that one was asked for
	here           []uint64        // a bit for each block
	missing        int32           // blocks
	done           time.Duration
}

// takes reports whether a move is the next one that the receiver has to do with.
func (f *flow) takes(m schedule.Move) bool {
	return f.turns == nil || f.turns[f.begun].From == m.From && f.turns[f.begun].Block == m.Block
}

func (f *flow) has(block int32) bool { return f.here[block/64]&(1<<(block%64)) != 0 }

type run struct {
	net       *Network
	transfers []Transfer
	wires     *wires
	flows     []flow
	agenda    agenda
	now       time.Duration
	cross     int64
}

func newRun(n *Network, transfers []Transfer) *run {
	r := &run{net: n, transfers: transfers, wires: newWires(n)}
	for i := range transfers {
		t, first := &transfers[i], int32(len(r.flows))
		for rank := range t.Plan.Nodes() {
			f := flow{transfer: int32(i), rank: int32(rank), first: first, node: int32(t.node(rank)), moves: t.Plan.Sends(rank)}
			f.here, f.missing = make([]uint64, (t.Plan.Blocks()+63)/64), int32(t.Plan.Blocks())
			if n.Intake == InTurn {
				f.turns = t.Plan.Receives(rank)
			}
			if rank == 0 {
				f.missing = 0
				for w := range f.here {
					f.here[w] = ^uint64(0)
				}
			}
			r.flows = append(r.flows, f)
		}
	}
	return r
}

// at has an event happen: now, if it is due.
func (r *run) at(t time.Duration, kind uint8, flow, move int32) {
	e := event{at: t, kind: kind, flow: flow, move: move}
	if t <= r.now {
		r.happen(e)
		return
	}
	r.agenda.enter(e)
}

func (r *run) happen(e event) {
	r.now = e.at
	switch f := &r.flows[e.flow]; e.kind {
	case ready:
		egress := &r.wires.egress[f.node]
		start := max(r.now, egress.free)
		egress.serve(r.now, r.size(f, e.move))
		r.at(start, begun, e.flow, e.move)
	case begun:
		r.begin(f, e.flow, e.move)
	case through:
		r.at(r.now+r.net.Latency, arrived, e.flow, e.move)
		f.next, f.sending = e.move+1, false
		f.done = max(f.done, r.rootDone(f))
		r.ask(e.flow)
	case arrived:
		r.arrive(f.first+f.moves[e.move].To, f.moves[e.move].Block)
	}
}

// rootDone is now at a root, whose part is over with its last send.
func (r *run) rootDone(f *flow) time.Duration {
	if f.rank != 0 {
		return 0
	}
	return r.now
}

func (r *run) size(f *flow, move int32) int64 {
	return r.transfers[f.transfer].size(f.moves[move].Block)
}

// ask has a node's next send of a transfer wait for nothing but the network, once its block is here
// and the receiver takes it.
func (r *run) ask(flow int32) {
	f := &r.flows[flow]
	if f.sending || int(f.next) == len(f.moves) {
		return
	}
	m := f.moves[f.next]
	if !f.has(m.Block) || !r.flows[f.first+m.To].takes(m) {
		return
	}
	f.sending = true
	r.at(r.now+r.jitter(f), ready, flow, f.next)
}

// begin puts a send on the wires.
func (r *run) begin(f *flow, flow, move int32) {
	m, bytes := f.moves[move], r.size(f, move)
	if invariants.Enabled {
		invariants.Check(f.has(m.Block) && move == f.next && r.flows[f.first+m.To].takes(m), "L1", "node %d sends %+v, its move %d, after %d", f.node, m, move, f.next)
	}
	to := r.flows[f.first+m.To].node
	if r.wires.crosses(f.node, to) {
		r.cross += bytes
	}
	r.at(r.wires.pass(r.now, f.node, to, bytes), through, flow, move)
	r.turn(&r.flows[f.first+m.To])
}

// turn has a receiver take its next block from the node that sends that.
func (r *run) turn(f *flow) {
	if f.turns == nil {
		return
	}
	if f.begun++; int(f.begun) < len(f.turns) {
		r.ask(f.first + f.turns[f.begun].From)
	}
}

// arrive gives a block to a receiver.
func (r *run) arrive(flow, block int32) {
	f := &r.flows[flow]
	f.here[block/64] |= 1 << (block % 64)
	if f.missing--; f.missing == 0 {
		f.done = r.now
	}
	r.ask(flow)
}

// jitter is drawn from the seed and the send alone, so that a send is late in the same way whatever
// happens around it.
func (r *run) jitter(f *flow) time.Duration {
	if r.net.Jitter == 0 {
		return 0
	}
	m := f.moves[f.next]
	draw := mix(mix(mix(r.net.Seed)^uint64(f.transfer)<<32^uint64(f.rank)) ^ uint64(m.To)<<32 ^ uint64(m.Block))
	late, _ := bits.Mul64(draw, uint64(r.net.Jitter)+1)
	return time.Duration(late)
}

// mix is the output function of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (r *run) result() Result {
	res := Result{CrossBytes: r.cross}
	for i := range r.transfers {
		nodes := r.transfers[i].Plan.Nodes()
		o := outcome(r.flows[:nodes])
		r.flows = r.flows[nodes:]
		res.Transfers = append(res.Transfers, o)
		res.Time = max(res.Time, o.Time)
	}
	if res.Time == 0 {
		return res
	}
	busy := time.Duration(0)
	for i := range r.wires.egress {
		busy += r.wires.egress[i].busy
	}
	res.Utilisation = float64(busy) / float64(res.Time) / float64(r.net.Nodes)
	return res
}

func outcome(flows []flow) (o Outcome) {
	for i := range flows {
		f := &flows[i]
		if invariants.Enabled {
			invariants.Check(f.missing == 0 && int(f.next) == len(f.moves), "L4", "node %d lacks %d blocks", f.node, f.missing)
		}
		o.Done = append(o.Done, f.done)
	}
	if len(flows) > 1 {
		o.Time = slices.Max(o.Done[1:])
		o.Skew = o.Time - slices.Min(o.Done[1:])
	}
	return o
}
