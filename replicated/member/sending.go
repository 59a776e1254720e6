package member

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/replicated/internal/batch"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// How records for which calls wait are sent. A call that is the only one of its process sends its
// record by itself, at once. Records of calls that are made while others are under way gather, and
// a goroutine sends them together when all goroutines that could run had their turn. What is
// decided is in package batch. All records of calls go this way, so that none overtakes an earlier
// one.

// few is with how many calls of this process under way, its own among them, a record is sent by
// itself.
const few = 1

// maxBatch bounds the bytes of records that share a message.
const maxBatch = 64 << 10

// posted is a record of a call.
type posted struct {
	call uint64
	stay *stay // of a command of this process
}

// sending is the records of this process that wait to be sent.
type sending struct {
	mu    sync.Mutex
	batch batch.Batch[posted]
	wake  wait.Bell // there is something to send
}

// limit sets how much shares a message, by the size of the ring.
func (b *sending) limit(ring int) { b.batch.Limit(min(maxBatch, ring/8)) }

// post has a record sent, which is head and tail together. It is by itself if the call is alone,
// and nothing else waits. Post returns once the record has its place behind this process's earlier
// ones, and waits for buffer space until ctx ends.
func (o *object) post(ctx context.Context, head, tail []byte, of posted, alone bool) error {
	b, size := &o.sending, len(head)+len(tail)
	if alone {
		c, err := o.claimAlone(size)
		if err == nil {
			machine.Stamp(head, now())
			copy(c.Bytes[copy(c.Bytes, head):], tail)
			return c.Commit()
		}
		if !waits(err) {
			return err
		}
	}
	b.mu.Lock()
	if !b.batch.Fits(size) {
		w := b.batch.Barrier()
		b.mu.Unlock()
		if err := o.pass(ctx, w); err != nil {
			return err
		}
		record := slices.Concat(head, tail)
		machine.Stamp(record, now())
		return o.sub.Send(ctx, record)
	}
	first, w := b.batch.Put(head, tail, of)
	b.mu.Unlock()
	if first {
		b.wake.Ring()
	}
	if w == nil {
		return nil
	}
	return o.pass(ctx, w)
}

// errTogether says that a record is to be sent with others, and waits why a record cannot be sent
// by itself at once.
var errTogether = errors.New("others wait")

func waits(err error) bool {
	return errors.Is(err, errTogether) || errors.Is(err, squall.ErrWindowFull) || errors.Is(err, squall.ErrTooLarge)
}

// claimAlone claims room for a record that is sent by itself, if nothing else waits.
func (o *object) claimAlone(bytes int) (squall.Claim, error) {
	b := &o.sending
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.batch.Alone() {
		return squall.Claim{}, errTogether
	}
	return o.sub.TryClaim(bytes)
}

// pass waits until what is in the queue has passed it.
func (o *object) pass(ctx context.Context, w *batch.Waiting[posted]) error {
	if w == nil {
		return nil
	}
	ctx = o.sub.Extension(extension.Key{}).Bound(ctx)
	var err error
	select {
	case <-w.Passed:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-o.group.Done():
		err = o.ended()
	}
	o.sending.mu.Lock()
	defer o.sending.mu.Unlock()
	if !o.sending.batch.Leave(w) { // it has passed meanwhile
		return nil
	}
	return err
}

// sendBatches sends the records that gather, until the group ends.
func (o *object) sendBatches() {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		<-o.group.Done()
		cancel(o.ended())
	}()
	for {
		select {
		case <-o.sending.wake:
		case <-ctx.Done():
			return
		}
		for o.sendBatch(ctx) {
		}
	}
}

// sendBatch sends what has gathered, and reports whether there was anything.
func (o *object) sendBatch(ctx context.Context) bool {
	runtime.Gosched() // callers that can run now have their records sent with these
	b := &o.sending
	b.mu.Lock()
	data, of, passed := b.batch.Seal(now())
	b.mu.Unlock()
	if data == nil {
		return false
	}
	passedAll(passed)
	c, err := o.sub.Claim(ctx, len(data))
	b.mu.Lock()
	passed = b.batch.Sent()
	b.mu.Unlock()
	passedAll(passed)
	if err == nil {
		copy(c.Bytes, data)
		err = c.Commit()
	}
	if err != nil {
		o.unsent(data, of, err)
	}
	return true
}

func passedAll(all []*batch.Waiting[posted]) {
	for _, w := range all {
		close(w.Passed)
	}
}

// unsent ends the calls of a message that could not be sent.
func (o *object) unsent(data []byte, of []posted, err error) {
	rs := machine.Split(data)
	for _, p := range of {
		record, _ := rs.Next()
		waiting := o.calls.take(p.call)
		if waiting == nil { // it was given up meanwhile: its outcome says why
			continue
		}
		out := invoke.Outcome{Err: err}
		if p.stay != nil && o.stay.Load() != p.stay {
			out.Err, out.Args = o.elsewhere(), record[machine.CommandBytes:]
		}
		waiting.Complete(&out)
		waiting.Signal()
	}
}

// ended returns why the calls of a group that has ended fail.
func (o *object) ended() error {
	err := o.group.Err()
	if err == nil {
		err = squall.ErrClosed
	}
	return fmt.Errorf("replicated: object %q: %w", o.sg.Name, err)
}

// sendAll waits until everything is sent that waits.
func (o *object) sendAll(ctx context.Context) {
	o.sending.mu.Lock()
	w := o.sending.batch.Barrier()
	o.sending.mu.Unlock()
	_ = o.pass(ctx, w) // what is not sent then ends with the group
}
