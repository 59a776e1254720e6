package squall

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// Subgroup is this process's part in one subgroup. Its methods may be called from any goroutine.
type Subgroup struct {
	group *Group
	sg    views.Subgroup
	part  *member.Subgroup // nil if this process is not a member of it
}

// Name is the subgroup's name.
func (s *Subgroup) Name() string { return s.sg.Name }

// MaxMessage is the largest message that the subgroup takes, in bytes.
func (s *Subgroup) MaxMessage() int { return member.MaxMessage(s.sg) }

// Send multicasts a copy of data. It waits for room until ctx ends, and returns once the message has its place behind this
// process's earlier ones: it will be delivered at every member, or the group halts. In an upcall use TrySend.
func (s *Subgroup) Send(ctx context.Context, data []byte) error {
	c, err := s.Claim(ctx, len(data))
	if err != nil {
		return err
	}
	copy(c.Bytes, data)
	return c.Commit()
}

// TrySend is Send that fails with ErrWindowFull instead of waiting.
func (s *Subgroup) TrySend(data []byte) error {
	c, err := s.TryClaim(len(data))
	if err != nil {
		return err
	}
	copy(c.Bytes, data)
	return c.Commit()
}

// Claim takes room for a message of n bytes in the ring, to be filled in place, and waits for it until ctx ends. The message
// keeps its place before later claims of this process: commit soon, or abort.
func (s *Subgroup) Claim(ctx context.Context, n int) (Claim, error) {
	if s.part == nil {
		return Claim{}, ErrNotSender
	}
	c, err := s.part.Claim(ctx, n)
	if err != nil {
		return Claim{}, err
	}
	return Claim{c, s.part.Outbox}, nil
}

// TryClaim is Claim that fails with ErrWindowFull instead of waiting.
func (s *Subgroup) TryClaim(n int) (Claim, error) {
	if s.part == nil {
		return Claim{}, ErrNotSender
	}
	c, err := s.part.TryClaim(n)
	if err != nil {
		return Claim{}, err
	}
	return Claim{c, s.part.Outbox}, nil
}

// Claim is room for one message. Bytes holds whatever was there before; fill all of it.
type Claim struct {
	smc.Claim
	outbox *member.Outbox
}

// Commit sends the message. Bytes must not be touched afterwards. A second Commit or Abort fails with ErrClaimDone; the reason of
// a halt means that the message may or may not have been sent before it.
func (c Claim) Commit() error {
	if c.outbox == nil {
		return ErrClaimDone
	}
	return c.outbox.Commit(c.Claim)
}

// Abort gives the room back without sending anything.
func (c Claim) Abort() error {
	if c.outbox == nil {
		return ErrClaimDone
	}
	return c.outbox.Abort(c.Claim)
}

// Skip declares that this process stays silent for the next so many rounds of turns, so that nobody waits for it and no
// nulls are sent for it. A message sent meanwhile is delivered behind those rounds. At most MaxSkip rounds at a time.
func (s *Subgroup) Skip(rounds int) error {
	if s.part == nil {
		return ErrNotSender
	}
	if rounds < 0 || rounds > MaxSkip {
		return fmt.Errorf("%w: skip %d rounds, 0 to %d at a time", ErrTooLarge, rounds, MaxSkip)
	}
	return s.part.Skip(order.Index(rounds))
}

// MaxSkip is how many rounds one Skip may declare.
const MaxSkip = 1 << 20

// Stats is what this process did in the subgroup so far. Nil if it is not a member.
func (s *Subgroup) Stats() *multicast.Stats {
	if s.part == nil {
		return nil
	}
	return s.part.Stats()
}
