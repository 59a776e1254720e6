package dds

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
)

// Coherent sets of a client. The samples of a set stay here until the set is whole. Then they get
// their numbers, all at once, and go to the relay one after the other, at the place that the set
// has in the order of each of its writers. So whatever relays carry of them, a sample that was
// written after a set never comes into the order before it, and none of a set without the others.

// clientSets are the coherent sets of a client. A set is in writing until the application ends it.
// It is in whole from when the outbox takes it until the order has it: it is never in both.
type clientSets struct {
	writing map[uint64]*clientSet // by the numbers that NewSet gave
	opened  uint64                // so far
	whole   []*sending            // in the order of their numbers
	last    uint64                // number in whole
}

// clientSet is a coherent set that is being written.
type clientSet struct {
	entries []setEntry // under the client's lock
	bytes   int
}

type setEntry struct {
	writer space.ID
	entry  remote.Entry
}

// sending is a coherent set that is not known to be where it is to be.
type sending struct {
	number uint64
	of     []setPart
	sent   bool // on this connection
}

// setPart is what a writer has in a set.
type setPart struct {
	*used
	last uint64 // number of the writer's last sample in it
}

// ordered reports whether the part is in the order, and so the set is.
func (p *setPart) ordered() bool { return p.used.ordered >= p.last }

// ordered reports whether all writers know that the set is in the order.
func (s *sending) ordered() bool {
	return !slices.ContainsFunc(s.of, func(p setPart) bool { return !p.ordered() })
}

// needs reports whether the set may have to be sent again, and have samples of a writer then.
func (s *sending) needs(u *used) bool {
	return slices.ContainsFunc(s.of, func(p setPart) bool { return p.used == u && p.outbox.Acknowledged() < p.last })
}

// NewSet implements core.Backend.
func (c *client) NewSet() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sets.opened++
	return c.sets.opened
}

// add adds a sample to a set that is being written. The client's lock is held.
func (c *client) add(number uint64, writer space.ID, e remote.Entry) error {
	if err := c.fits(e.Key, e.Data); err != nil {
		return err
	}
	s := c.sets.writing[number]
	if s == nil {
		s = &clientSet{}
	}
	if most := min(c.cfg.OutboxBytes, remote.MaxSetBytes); s.bytes+e.Bytes() > most {
		return fmt.Errorf("%w: a coherent set of a client has %d bytes at most (OutboxBytes)", ErrTooLarge, most)
	}
	s.bytes += e.Bytes()
	s.entries = append(s.entries, setEntry{writer, e})
	c.sets.writing[number] = s
	return nil
}

// EndSet implements core.Backend.
func (c *client) EndSet(ctx context.Context, number uint64, drop bool) error {
	c.mu.Lock()
	s := c.sets.writing[number]
	delete(c.sets.writing, number)
	c.mu.Unlock()
	if drop || s == nil {
		return nil
	}
	return c.commit(ctx, s)
}

// commit gives a set that is whole to the relays, as soon as its writers have room, and waits until
// it is in the order.
func (c *client) commit(ctx context.Context, s *clientSet) error {
	if len(s.entries) == 0 {
		return nil
	}
	var set *sending
	err := c.until(ctx, func() (bool, error) {
		bytes := map[*used]int{}
		for i := range s.entries {
			u, err := c.usable(s.entries[i].writer)
			if err != nil {
				return false, err
			}
			bytes[u] += s.entries[i].entry.Bytes()
		}
		for u, n := range bytes {
			if u.outbox.Bytes() > 0 && u.outbox.Bytes()+n > c.cfg.OutboxBytes {
				return false, nil
			}
		}
		c.sets.last++
		set = &sending{number: c.sets.last}
		for i := range s.entries {
			e := s.entries[i].entry
			e.Set = set.number
			c.find(s.entries[i].writer).outbox.Put(e)
		}
		for u := range bytes {
			set.of = append(set.of, setPart{u, u.outbox.Last()})
		}
		c.sets.whole = append(c.sets.whole, set)
		if c.relay.link != nil {
			c.relay.link.rouse()
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return c.until(ctx, func() (bool, error) {
		if set.ordered() {
			return true, nil
		}
		return false, set.failed()
	})
}

// failed is why the set may be in the order, or not.
func (s *sending) failed() error {
	for _, p := range s.of {
		if p.used.failed != nil && !p.ordered() {
			return p.used.failed
		}
	}
	return nil
}

// appendSets appends the sets that can be sent now. The client's lock is held.
func (c *client) appendSets(out []byte) []byte {
	for _, s := range c.sets.whole {
		if s.sent || s.ordered() || !s.due() {
			continue
		}
		s.sent = true
		for i := range s.of {
			u := s.of[i].used
			entries := u.outbox.NextOf(s.number)
			for i := range entries {
				out = remote.AppendSample(out, u.id.Number, &entries[i])
			}
		}
		out = remote.AppendFrame(out, remote.KindSetEnd, func(b []byte) []byte { return b })
	}
	return out
}

// due reports whether the samples of a set are the next ones of all its writers.
func (s *sending) due() bool {
	for i := range s.of {
		p := &s.of[i]
		if !p.ordered() && (!p.open || p.outbox.NextSet() != s.number) {
			return false
		}
	}
	return true
}

// settleSets forgets the sets that are not sent again. The client's lock is held.
func (c *client) settleSets() {
	c.sets.whole = slices.DeleteFunc(c.sets.whole, func(s *sending) bool {
		return !slices.ContainsFunc(s.of, func(p setPart) bool { return s.needs(p.used) })
	})
}

// tear ends the sets of a writer that fails or was closed before they are known to be where they
// are to be. Their other writers must not go on without it. The client's lock is held.
func (c *client) tear(u *used, why error) {
	for {
		i := slices.IndexFunc(c.sets.whole, func(s *sending) bool { return s.needs(u) })
		if i < 0 {
			return
		}
		s := c.sets.whole[i]
		c.sets.whole = slices.Delete(c.sets.whole, i, i+1)
		u.torn = why
		for _, p := range s.of {
			if p.used != u && p.torn == nil {
				p.open, p.torn = false, why
				p.fail(why)
				c.tear(p.used, why)
			}
		}
	}
}

// errSetClosed is the error of the other writers of a set when one is closed before the set is
// known to be where it is to be.
var errSetClosed = errors.New("dds: another writer was closed before a coherent set with samples of both was known to be in the order, or on the disks")
