package squall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// Subgroup is this process's part in one subgroup, over all views. Its methods may be called from
// any goroutine.
type Subgroup struct {
	group  *Group
	decl   views.Declaration
	outbox *member.Outbox
	app    application
	queued bool                     // messages wait for the application in a queue
	state  atomic.Pointer[receiver] // the last receiver that had to get the state; nil: none had to
	// snapshots holds the call of TakeSnapshot that is under way; nil: there can be none.
	snapshots chan struct{}
	// snapshotter takes snapshots by policy, or is nil.
	snapshotter *snapshotter
	// leaving is what package replicated does before the subgroup refuses messages, or nil.
	leaving atomic.Pointer[func(context.Context)]
}

// Name returns the subgroup's name.
func (s *Subgroup) Name() string { return s.decl.Name }

// MaxMessageBytes returns the size of the largest message that the subgroup takes, in bytes.
func (s *Subgroup) MaxMessageBytes() int { return max(s.ringMessage(), s.decl.MaxMessageBytes) }

// ringMessage returns the size of the largest message that goes through the ring, in bytes. Larger
// messages are large messages.
func (s *Subgroup) ringMessage() int {
	if s.decl.Mode == Persistent {
		return smc.MaxMessage(s.decl.RingBytes) - smc.TimeBytes
	}
	return smc.MaxMessage(s.decl.RingBytes)
}

// takesLarge reports whether the subgroup takes large messages.
func (s *Subgroup) takesLarge() bool { return s.decl.MaxMessageBytes > s.ringMessage() }

// Shard returns the number of the shard that this process is in now, or false if it is in none.
func (s *Subgroup) Shard() (shard int, ok bool) {
	v := s.group.View()
	self, in := v.RankOf(s.group.ID())
	for _, sg := range v.Shards(s.decl.Name) {
		if in && sg.Has(self) {
			return sg.Shard, true
		}
	}
	return 0, false
}

// Members returns the members of a shard in the view in force, in order of seniority, or none if
// the shard is not provisioned. A subgroup without shards has the shard 0 only.
func (s *Subgroup) Members(shard int) []NodeID {
	return s.ids(shard, func(sg views.Subgroup) []order.Rank { return sg.Members })
}

// Senders returns the members of a shard that take turns in sending.
func (s *Subgroup) Senders(shard int) []NodeID {
	return s.ids(shard, func(sg views.Subgroup) []order.Rank { return sg.Senders })
}

func (s *Subgroup) ids(shard int, of func(views.Subgroup) []order.Rank) (ids []NodeID) {
	v := s.group.View()
	shards := v.Shards(s.decl.Name)
	if shard < 0 || shard >= len(shards) {
		return nil
	}
	for _, r := range of(shards[shard]) {
		ids = append(ids, v.Members[r].ID)
	}
	return ids
}

// SetSender says whether this process wants to send in the subgroup. A process that does not gets
// ErrNotSender soon; when everything that it sent before is delivered, a view begins in which no
// member waits for its turns. A process that wants to send again has to wait for another view.
func (s *Subgroup) SetSender(on bool) error { return s.group.setSender(s, on) }

// Send multicasts a copy of data. It waits for buffer space until ctx ends, and returns once the
// message has its place after this process's earlier messages: every member will deliver it, in
// this view or, if the view ends before, in a later one. If this process halts, the others may have
// delivered the message or not. In a callback that runs on the loop, Send returns ErrInCallback
// where it would have to wait; use TrySend there.
//
// A message of more than half of RingBytes, which no ring takes, is brought to every member before
// it has its place, while small messages go on; if ctx ends before that, no member delivers it.
// Send waits for buffer space for it in LargeMemoryBytes.
func (s *Subgroup) Send(ctx context.Context, data []byte) error {
	if len(data) > s.ringMessage() {
		return s.SendFrom(ctx, bytes.NewReader(data), len(data))
	}
	err := s.outbox.TrySend(data)
	if err == ErrWindowFull {
		err = s.outbox.Send(s.group.upcalls.bound(ctx), data)
	}
	return err
}

// TrySend is like Send, but fails with ErrWindowFull instead of waiting. It takes no large message,
// because a large message has to wait until all members have its body.
func (s *Subgroup) TrySend(data []byte) error { return s.outbox.TrySend(data) }

// SendBatch sends copies of messages as Send does, one after the other, in less time. It returns
// how many it has sent; the error is about the one after them, or is the reason of a halt.
func (s *Subgroup) SendBatch(ctx context.Context, batch [][]byte) (sent int, err error) {
	if len(batch) == 0 {
		return 0, s.outbox.Able()
	}
	for sent < len(batch) {
		n, err := s.outbox.TrySendBatch(batch[sent:])
		if sent += n; err == nil {
			continue
		}
		if err != ErrWindowFull && !errors.Is(err, ErrTooLarge) {
			return sent, err
		}
		if err = s.Send(ctx, batch[sent]); err != nil { // it waits, or is a large message
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// SendFuture is like Send, and returns a Future that tells when, and where in the order, the
// message was delivered here.
func (s *Subgroup) SendFuture(ctx context.Context, data []byte) (*Future, error) {
	if len(data) > s.ringMessage() {
		if err := s.group.upcalls.waits(); err != nil {
			return nil, err
		}
		l, err := s.outbox.Large(ctx, len(data))
		if err != nil {
			return nil, err
		}
		f := s.group.newFuture()
		l.ResolveInto(&f.future)
		if err := s.deliver(ctx, l, bytes.NewReader(data)); err != nil {
			return nil, err
		}
		return f, nil
	}
	c, err := s.Claim(ctx, len(data))
	if err != nil {
		return nil, err
	}
	copy(c.Bytes, data)
	return c.CommitFuture()
}

// Claim takes space for a message of n bytes in the ring, to be filled in place, and waits for
// buffer space until ctx ends. The message keeps its place before later claims of this process, so
// the caller should commit or abort soon. A claim stays valid across views.
func (s *Subgroup) Claim(ctx context.Context, n int) (Claim, error) {
	c, err := s.outbox.TryClaim(n)
	if err == ErrWindowFull {
		c, err = s.outbox.Claim(s.group.upcalls.bound(ctx), n)
	}
	if err != nil {
		return Claim{}, err
	}
	return Claim{c.Bytes, c, s}, nil
}

// TryClaim is like Claim, but fails with ErrWindowFull instead of waiting.
func (s *Subgroup) TryClaim(n int) (Claim, error) {
	c, err := s.outbox.TryClaim(n)
	if err != nil {
		return Claim{}, err
	}
	return Claim{c.Bytes, c, s}, nil
}

// Claim is space for one message in the ring.
type Claim struct {
	Bytes []byte // to be filled by the application; it has the bytes that an earlier message left there

	claim    smc.Claim
	subgroup *Subgroup
}

// Commit sends the message. Bytes must not be used afterwards. A second Commit or Abort fails with
// ErrClaimDone. Any other error is the reason of a halt: the message may have been sent before the
// halt, or not.
func (c Claim) Commit() error {
	if c.subgroup == nil {
		return ErrClaimDone
	}
	return c.subgroup.outbox.Commit(c.claim)
}

// CommitFuture is like Commit, and returns a Future of the message's delivery.
func (c Claim) CommitFuture() (*Future, error) {
	if c.subgroup == nil {
		return nil, ErrClaimDone
	}
	f := c.subgroup.group.newFuture()
	if err := c.subgroup.outbox.CommitTo(c.claim, &f.future); err != nil {
		return nil, err
	}
	return f, nil
}

// Abort gives the space back without sending anything: the claim's turn passes as a null.
func (c Claim) Abort() error {
	if c.subgroup == nil {
		return ErrClaimDone
	}
	return c.subgroup.outbox.Abort(c.claim)
}

// Skip declares that this process stays silent for the given number of rounds of turns of this
// view, so that no member waits for it and no nulls are sent for it. A message sent meanwhile is
// delivered after those rounds. One call declares from 0 to MaxSkip rounds; any other number is an
// error, and nothing is skipped. In an Unordered subgroup nobody waits for a turn, and Skip has no
// effect.
func (s *Subgroup) Skip(rounds int) error {
	if rounds < 0 || rounds > MaxSkip {
		return fmt.Errorf("skip %d rounds: it takes 0 to %d at a time", rounds, MaxSkip)
	}
	if err := s.outbox.Able(); err != nil {
		return err
	}
	s.group.member.Call(func() { s.group.member.Skip(s.decl.Name, order.Index(rounds)) })
	return nil
}

// Resume says that the application has space again after DeliverSome took less than it was offered.
// It may be called anywhere.
func (s *Subgroup) Resume() { s.app.resume() }

// MaxSkip is the largest number of rounds that one call of Skip declares.
const MaxSkip = 1 << 20

// refuses reports whether nothing is delivered here before the state or the log is here that other
// members give.
func (s *Subgroup) refuses() bool {
	r := s.state.Load()
	return r != nil && r.Refuses()
}

// Restored returns a channel that is closed when this process has the subgroup's state: Restore, or
// Log.Recover, has succeeded, and the messages that came meanwhile were delivered. In a
// Persistent subgroup without both it is closed when the log lacks nothing any more. It is closed
// already where there is nothing to wait for: in an Ordered subgroup without Restore, in a process
// that was a member from the start, and in one that is in no shard.
func (s *Subgroup) Restored() <-chan struct{} {
	if r := s.state.Load(); r != nil {
		return r.here
	}
	return nothingToRestore
}
