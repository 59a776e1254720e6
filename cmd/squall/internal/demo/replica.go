package demo

import (
	"encoding"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall"
)

const (
	// headerBytes is what a message begins with: the number of its process, and its own number
	// there.
	headerBytes = 16
	// markEvery is how many messages lie between two marks: a few marks a second.
	markEvery = 1 << 17
	// maxProcesses bounds what a message's first word may say.
	maxProcesses = 1 << 16
)

// replica is the replicated state of one member: a digest of all that was delivered, and how much
// that was.
type replica struct {
	say func(subjectReport)

	mu        sync.Mutex
	digest    digest
	messages  uint64
	delivered []uint64 // by process
	taken     uint64   // messages that another member's state stood for

	// This member's own.
	view    squall.ViewID // of the last message; 0: there was none yet
	views   int
	last    time.Time     // of the last upcall
	gap     time.Duration // the longest since the view began
	longest time.Duration
	faulty  bool
}

func newReplica(say func(subjectReport)) *replica { return &replica{say: say, digest: newDigest()} }

// deliver is the upcall.
func (r *replica) deliver(run []squall.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused(time.Now())
	for _, m := range run {
		if m.View != r.view {
			r.turn(m.View)
		}
		r.add(m)
	}
}

// paused accounts for the time since the last upcall.
func (r *replica) paused(now time.Time) {
	if !r.last.IsZero() {
		r.gap = max(r.gap, now.Sub(r.last))
		r.longest = max(r.longest, r.gap)
	}
	r.last = now
}

// turn notes that a message of another view is the next one: the views before it are over.
func (r *replica) turn(v squall.ViewID) {
	if r.view != 0 {
		for over := r.view; over < v; over++ {
			r.say(subjectReport{Mark: r.mark(atViewEnd, over)})
		}
		r.say(subjectReport{Pause: &pause{v, r.gap}})
	}
	if v < r.view {
		r.fault("a message of view %d was delivered behind one of view %d", v, r.view)
	}
	r.view, r.gap = v, 0
	r.views++
}

// add puts a message into the state.
func (r *replica) add(m squall.Message) {
	r.check(m)
	r.messages++
	r.digest.add(m)
	if r.messages%markEvery == 0 {
		r.say(subjectReport{Mark: r.mark(atCount, 0)})
	}
}

// check finds a message that is not the next one of its process.
func (r *replica) check(m squall.Message) {
	if len(m.Data) < headerBytes {
		r.fault("a message of node %d has %d bytes, less than any that was sent", m.Sender, len(m.Data))
		return
	}
	process, number := binary.LittleEndian.Uint64(m.Data), binary.LittleEndian.Uint64(m.Data[8:])
	if process >= maxProcesses {
		r.fault("a message of node %d says that it is from process %d", m.Sender, process)
		return
	}
	if missing := int(process) + 1 - len(r.delivered); missing > 0 {
		r.delivered = append(r.delivered, make([]uint64, missing)...)
	}
	if due := r.delivered[process]; number != due {
		r.fault("message %d of process %d (node %d) was delivered in view %d where message %d was due", number, process, m.Sender, m.View, due)
	}
	r.delivered[process]++
}

// fault tells what is wrong, the first time.
func (r *replica) fault(format string, args ...any) {
	if !r.faulty {
		r.faulty = true
		r.say(subjectReport{Fault: fmt.Sprintf(format, args...)})
	}
}

func (r *replica) mark(what markKind, view squall.ViewID) *mark {
	return &mark{What: what, View: view, Messages: r.messages, Digest: r.digest.sum()}
}

// account is all that this member can say now.
func (r *replica) account() *account {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &account{
		Mark: *r.mark(atEnd, 0), Bytes: r.digest.bytes, Delivered: slices.Clone(r.delivered), Views: r.views, Longest: r.longest,
	}
}

// has reports whether so many messages of each process are delivered here.
func (r *replica) has(sent []uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for process, n := range sent {
		if n > 0 && (process >= len(r.delivered) || r.delivered[process] < n) {
			return false
		}
	}
	return true
}

// state is what is handed over.
type state struct {
	Digest    []byte // the hash, as it is after Messages
	Messages  uint64
	Bytes     uint64
	Delivered []uint64
}

// snapshot captures the state.
func (r *replica) snapshot() func(io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digest.flush()
	digest, err := r.digest.hash.(encoding.BinaryMarshaler).MarshalBinary()
	s := state{digest, r.messages, r.digest.bytes, slices.Clone(r.delivered)}
	return func(w io.Writer) error {
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(s)
	}
}

// restore takes another member's state.
func (r *replica) restore(in io.Reader) error {
	var s state
	if err := json.NewDecoder(in).Decode(&s); err == io.EOF { // nothing: the shard begins
		r.reset()
		return nil
	} else if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.digest.hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(s.Digest); err != nil {
		return err
	}
	r.messages, r.digest.bytes, r.delivered = s.Messages, s.Bytes, s.Delivered
	r.taken = s.Messages
	r.say(subjectReport{Mark: r.mark(atRestore, 0)})
	return nil
}

// restored is how many messages the state stood for that was handed over last.
func (r *replica) restored() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

// reset forgets everything: a log tells it anew.
func (r *replica) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digest = newDigest()
	r.messages, r.delivered, r.taken = 0, nil, 0
}

// replay adds a message of a log.
func (r *replica) replay(m squall.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(m)
	r.taken = r.messages
}
