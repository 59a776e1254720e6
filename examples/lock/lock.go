package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

// The service: locks with leases. A lock belongs to a holder until it is released or its lease
// ends, in the time of the object, which is the same at every member. Each grant has a fence: a
// number that is larger than that of any grant before. What the lock protects takes the fence with
// each request and refuses smaller ones, so that a holder that was slow changes nothing after its
// lease has ended.

var (
	Acquire = replicated.NewCommand[Request, Grant]("acquire") // or fails with errHeld
	Renew   = replicated.NewCommand[Request, Grant]("renew")   // prolongs the lease
	Release = replicated.NewCommand[Request, bool]("release")  // reports whether the holder had it
	Holder  = replicated.NewQuery[string, Grant]("holder")     // the zero Grant: it is free
)

// Request is about a lock, for a holder, which has a name that no other one has.
type Request struct {
	Lock, Holder string
	LeaseMillis  int64
}

// Grant is what a holder has.
type Grant struct {
	Holder string
	Fence  uint64
	Until  int64 // in nanoseconds of the time of the object
}

// Locks is the state.
type Locks struct {
	Held map[string]Grant
	Last uint64 // fence
}

var (
	errHeld  = errors.New("another holder has the lock")
	errLost  = errors.New("the lease has ended")
	errLease = errors.New("a lease has at least a millisecond")
)

func newLocks() *Locks { return &Locks{Held: map[string]Grant{}} }

// expire releases what has no lease any more, and tells the watchers.
func (l *Locks) expire(c *member.Context) {
	var ended []string
	for name, g := range l.Held {
		if g.Until <= int64(c.Time) {
			ended = append(ended, name)
		}
	}
	slices.Sort(ended) // the order of a map is not the same at every member
	for _, name := range ended {
		l.free(c, name)
	}
}

func (l *Locks) free(c *member.Context, name string) {
	delete(l.Held, name)
	c.Emit("free/"+name, nil)
}

func (l *Locks) acquire(c *member.Context, r Request) (Grant, error) {
	l.expire(c)
	if g, held := l.Held[r.Lock]; held && g.Holder != r.Holder {
		return g, errHeld
	}
	if r.LeaseMillis < 1 {
		return Grant{}, errLease
	}
	if _, held := l.Held[r.Lock]; !held {
		l.Last++
		l.Held[r.Lock] = Grant{Holder: r.Holder, Fence: l.Last}
	}
	return l.prolong(c, r), nil
}

func (l *Locks) prolong(c *member.Context, r Request) Grant {
	g := l.Held[r.Lock]
	g.Until = int64(c.Time) + r.LeaseMillis*1e6
	l.Held[r.Lock] = g
	return g
}

func (l *Locks) renew(c *member.Context, r Request) (Grant, error) {
	l.expire(c)
	if l.Held[r.Lock].Holder != r.Holder || r.Holder == "" {
		return Grant{}, fmt.Errorf("%s: %w", r.Lock, errLost)
	}
	return l.prolong(c, r), nil
}

func (l *Locks) release(c *member.Context, r Request) (bool, error) {
	l.expire(c)
	if g, held := l.Held[r.Lock]; !held || g.Holder != r.Holder {
		return false, nil
	}
	l.free(c, r.Lock)
	return true, nil
}

func (l *Locks) holder(c *member.Context, name string) (Grant, error) {
	if g := l.Held[name]; g.Until > int64(c.Time) {
		return g, nil
	}
	return Grant{}, nil
}

func newObject() *member.Object[*Locks] {
	return member.New(squall.SubgroupConfig{Name: "locks"}, newLocks,
		member.Handle(Acquire, (*Locks).acquire),
		member.Handle(Renew, (*Locks).renew),
		member.Handle(Release, (*Locks).release),
		member.Handle(Holder, (*Locks).holder))
}
