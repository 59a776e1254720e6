package messages

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// tally counts what a member delivers, in all subgroups. In a limit it has a part for each sender,
// which the goroutine uses that delivers the sender's messages.
//
//	delivered[s]     W: loop. R: anybody. Published after everything below.
//	digested, fault  W: loop. R: anybody.
//	measuring        W: anybody. R: loop, which records latencies while it is set.
//	the rest         W: loop. R: anybody once nothing is delivered any more.
type tally struct {
	delivered [MaxNodes + 1]atomic.Uint64
	fault     atomic.Pointer[string]
	measuring atomic.Bool
	parts     []*partTally // by subgroup; in a limit by sender, from 0
	latencies *hdrhistogram.Histogram
	nodes     int
}

// partTally counts what is delivered in one subgroup, or in a limit of one sender.
type partTally struct {
	*tally
	self     int
	next     [MaxNodes + 1]uint64 // index that is due, by sender
	counts   [MaxNodes + 1]uint64 // of the run at hand, by sender
	sum      uint64               // of the bytes that were read
	digest   digest
	digested [MaxNodes + 1]atomic.Uint64 // the digest's chains after the last upcall
	copied   []byte                      // where messages are copied, with Copy
	own      func()                      // called on the loop for each own message; nil: not called
}

func newTally(spec Spec, self int) *tally {
	t := &tally{nodes: spec.Nodes, latencies: bench.NewHistogram()}
	for range spec.Subgroups {
		p := &partTally{tally: t, self: self, digest: digest{unordered: spec.Unordered}}
		if spec.Copy {
			p.copied = make([]byte, spec.SizeBytes)
		}
		t.parts = append(t.parts, p)
	}
	return t
}

// newLimitTally is the tally of a limit, which has no order between senders.
func newLimitTally(spec Spec, self int) *tally {
	return newTally(spec.with(func(s *Spec) { s.Subgroups, s.Unordered, s.Copy = s.Nodes, true, false }), self)
}

// batch is the upcall for a run of messages.
func (p *partTally) batch(run []squall.Message) {
	for i := range run {
		sender := int(run[i].Sender)
		p.take(sender, run[i].Data)
		p.counts[sender]++
	}
	for s, n := range p.counts[:p.nodes+1] {
		if n > 0 {
			p.publish(s, n)
			p.counts[s] = 0
		}
	}
}

// publish shows n more messages of a sender, and the digest first.
func (p *partTally) publish(sender int, n uint64) {
	chain := p.digest.chain(sender)
	p.digested[chain].Store(p.digest.chains[chain])
	p.delivered[sender].Store(p.delivered[sender].Load() + n)
}

// take is the application's part of a delivery: it reads one byte of each cache line, and checks
// and hashes the index.
func (p *partTally) take(sender int, data []byte) {
	if p.copied != nil {
		data = p.copied[:copy(p.copied, data)]
	}
	p.sum += bench.Touch(data)
	index, ok := indexOf(data)
	if !ok {
		index = p.next[sender]
	}
	if index != p.next[sender] && p.fault.Load() == nil {
		p.fault.Store(new(fmt.Sprintf("message %d of node %d came where %d was due", index, sender, p.next[sender])))
	}
	p.next[sender] = index + 1
	p.digest.add(sender, index)
	if sender == p.self {
		p.takeOwn(data)
	}
}

func (p *partTally) takeOwn(data []byte) {
	if p.measuring.Load() {
		if d, ok := latencyOf(data); ok {
			p.latencies.RecordValue(int64(d))
		}
	}
	if p.own != nil {
		p.own()
	}
}

// state is how far the deliveries are. The digest belongs to the count when nothing is delivered at
// the same time.
func (t *tally) state() (s State) {
	for i := range t.delivered {
		s.Delivered += t.delivered[i].Load()
	}
	for _, p := range t.parts {
		for i := range p.digested {
			s.Digest = (s.Digest ^ p.digested[i].Load()) * fnvPrime
		}
	}
	if fault := t.fault.Load(); fault != nil {
		s.Fault = *fault
	}
	return s
}

// bySender is the number of messages delivered, from node 1 up.
func (t *tally) bySender() []uint64 {
	counts := make([]uint64, t.nodes)
	for i := range counts {
		counts[i] = t.delivered[i+1].Load()
	}
	return counts
}

// pause sleeps for a while that is too short for a timer to be exact, and lets others run
// meanwhile.
func pause(d time.Duration) {
	if d >= 20*time.Microsecond {
		time.Sleep(d)
		return
	}
	for start := time.Now(); time.Since(start) < d; {
		runtime.Gosched()
	}
}

// Every stampEvery-th message has the time of sending behind its index.
const (
	stampBytes = 2 * bench.IndexBytes
	stampEvery = 32
)

// epoch makes the times of sending small and free of jumps. They mean something in their own
// process only.
var epoch = time.Now()

// fill writes every byte of a message.
func fill(b []byte, index uint64) {
	bench.Fill(b, index)
	if index%stampEvery == 0 && len(b) >= stampBytes {
		binary.LittleEndian.PutUint64(b[bench.IndexBytes:], uint64(time.Since(epoch)))
	}
}

// indexOf is a message's index; ok is false if the message is too short to carry it.
func indexOf(b []byte) (index uint64, ok bool) {
	if len(b) < bench.IndexBytes {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// latencyOf is the time since an own message was sent, if it carries it.
func latencyOf(b []byte) (d time.Duration, ok bool) {
	if len(b) < stampBytes || binary.LittleEndian.Uint64(b)%stampEvery != 0 {
		return 0, false
	}
	return time.Since(epoch) - time.Duration(binary.LittleEndian.Uint64(b[bench.IndexBytes:])), true
}
