package squall

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// Subgroup is this process's part in one subgroup, over all views. Its methods may be called from any goroutine.
type Subgroup struct {
	group  *Group
	decl   views.Declaration
	outbox *member.Outbox
	state  atomic.Pointer[receiver] // the last one that had to get the state; nil: none had to
}

// Name is the subgroup's name.
func (s *Subgroup) Name() string { return s.decl.Name }

// MaxMessageBytes is the largest message that the subgroup takes, in bytes.
func (s *Subgroup) MaxMessageBytes() int { return max(s.ringMessage(), s.decl.MaxMessageBytes) }

// ringMessage is the largest message that goes through the ring. Larger ones are large messages.
func (s *Subgroup) ringMessage() int {
	if s.decl.Mode == Persistent {
		return smc.MaxMessage(s.decl.RingBytes) - smc.TimeBytes
	}
	return smc.MaxMessage(s.decl.RingBytes)
}

// takesLarge reports whether there are large messages.
func (s *Subgroup) takesLarge() bool { return s.decl.MaxMessageBytes > s.ringMessage() }

// Shard is the number of the shard that this process is in now, or false if it is in none.
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

// Members are the members of a shard in the view in force, in order of seniority; none if it is not provisioned. Without shards it is
// shard 0.
func (s *Subgroup) Members(shard int) []NodeID {
	return s.ids(shard, func(sg views.Subgroup) []order.Rank { return sg.Members })
}

// Senders are those of Members that take turns in sending.
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

// SetSender says whether this process wants to send in the subgroup. Who does not gets ErrNotSender soon; when everything that it sent
// before is delivered, a view begins in which nobody waits for its turns. Who wants to again has to wait for another view.
func (s *Subgroup) SetSender(on bool) error { return s.group.setSender(s, on) }

// Send multicasts a copy of data. It waits for room until ctx ends, and returns once the message has its place behind this
// process's earlier ones: every member will deliver it, in this view or, if that ends before, in a later one. If this process halts,
// others may have delivered it or not. In an upcall use TrySend: Send returns ErrInUpcall there
// where it would have to wait.
//
// A message that no ring takes, of more than half of RingBytes, is brought to every member before it has its place, and small messages go on
// meanwhile; if ctx ends before that, nobody delivers it. It waits for room in LargeMemoryBytes.
func (s *Subgroup) Send(ctx context.Context, data []byte) error {
	if len(data) > s.ringMessage() {
		return s.SendFrom(ctx, bytes.NewReader(data), len(data))
	}
	c, err := s.Claim(ctx, len(data))
	if err != nil {
		return err
	}
	copy(c.Bytes, data)
	return c.Commit()
}

// TrySend is Send that fails with ErrWindowFull instead of waiting. It takes no large message: that would have to wait until all have it.
func (s *Subgroup) TrySend(data []byte) error {
	c, err := s.TryClaim(len(data))
	if err != nil {
		return err
	}
	copy(c.Bytes, data)
	return c.Commit()
}

// SendFuture is Send, with a Future that tells when, and where in the order, the message was delivered here.
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

// Claim takes room for a message of n bytes in the ring, to be filled in place, and waits for it until ctx ends. The message
// keeps its place before later claims of this process: commit soon, or abort. A claim is good across views.
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

// TryClaim is Claim that fails with ErrWindowFull instead of waiting.
func (s *Subgroup) TryClaim(n int) (Claim, error) {
	c, err := s.outbox.TryClaim(n)
	if err != nil {
		return Claim{}, err
	}
	return Claim{c.Bytes, c, s}, nil
}

// Claim is room for one message in the ring.
type Claim struct {
	Bytes []byte // to be filled by the application; it begins with what an earlier message left there

	claim    smc.Claim
	subgroup *Subgroup
}

// Commit sends the message. Bytes must not be used afterwards. A second Commit or Abort fails with
// ErrClaimDone. Any other error is the reason of a halt: the message may have been sent before it, or not.
func (c Claim) Commit() error {
	if c.subgroup == nil {
		return ErrClaimDone
	}
	return c.subgroup.outbox.Commit(c.claim)
}

// CommitFuture is Commit, and returns a Future of the message's delivery.
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

// Abort returns the room without sending anything.
func (c Claim) Abort() error {
	if c.subgroup == nil {
		return ErrClaimDone
	}
	return c.subgroup.outbox.Abort(c.claim)
}

// Skip declares that this process stays silent for the next so many rounds of turns of this view, so that nobody waits for it and
// no nulls are sent for it. A message sent meanwhile is delivered behind those rounds. At most MaxSkip rounds at a time.
func (s *Subgroup) Skip(rounds int) error {
	if rounds < 0 || rounds > MaxSkip {
		return fmt.Errorf("%w: skip %d rounds, 0 to %d at a time", ErrTooLarge, rounds, MaxSkip)
	}
	if err := s.outbox.Able(); err != nil {
		return err
	}
	s.group.member.Call(func() { s.group.member.Skip(s.decl.Name, order.Index(rounds)) })
	return nil
}

// MaxSkip is how many rounds one Skip may declare.
const MaxSkip = 1 << 20

// Restored is closed when this process has the subgroup's state: Restore has succeeded, and what was delivered meanwhile was handed
// over. Without Restore, for who was there from the start, and for who is in no shard, it is closed already.
func (s *Subgroup) Restored() <-chan struct{} {
	if r := s.state.Load(); r != nil {
		return r.here
	}
	return nothingToRestore
}
