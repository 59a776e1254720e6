package table

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
)

// ErrLimit says that a limit was reached; the error says which.
var ErrLimit = errors.New("limit reached")

// Limits bound what peers take of an endpoint.
type Limits struct {
	Peers, PeersPerAccount int
	Bytes, BytesPerAccount int64
}

// Accounts is what an endpoint counts for each party, over all connections of the party: a party
// that opens more connections has no more memory than before. The zero value with limits is ready.
type Accounts[P any] struct {
	Limits  Limits
	all     map[string]*Account[P]
	peers   int
	bytes   int64         // of all accounts
	short   []*Account[P] // that found the memory of the endpoint used up, not their own
	relieve []P           // what Refund returned last
}

// Account is one party.
type Account[P any] struct {
	Name    string
	peers   int // connections, whichever side opened them
	called  int // of these, the connections that the party opened
	bytes   int64
	starved []*Member[P] // that found no memory
	short   bool         // it is on the list of accounts for which the endpoint had no memory
}

// Member is a connection as its account sees it.
type Member[P any] struct {
	Peer    P
	Account *Account[P]
	charged int64 // from the beginning
	called  bool
	starved bool
}

// Bytes is the memory that the endpoint has for the party.
func (a *Account[P]) Bytes() int64 { return a.bytes }

// Peers are the connections of the party, and the number of them that the party opened.
func (a *Account[P]) Peers() (all, called int) { return a.peers, a.called }

// Starved is the number of connections that wait for memory.
func (a *Account[P]) Starved() int { return len(a.starved) }

// Charged is the memory of the connection that is counted from its beginning to its end.
func (m *Member[P]) Charged() int64 { return m.charged }

// IsStarved reports whether the connection waits for memory.
func (m *Member[P]) IsStarved() bool { return m.starved }

// Find returns the account with a name, or nil.
func (t *Accounts[P]) Find(name string) *Account[P] { return t.all[name] }

// Bytes is the memory that the endpoint has for all of them.
func (t *Accounts[P]) Bytes() int64 { return t.bytes }

// Len is the number of accounts.
func (t *Accounts[P]) Len() int { return len(t.all) }

// Admits returns why no further connection of a party is taken that needs so many bytes, or nil.
func (t *Accounts[P]) Admits(name string, bytes int64, called bool) error {
	if t.peers >= t.Limits.Peers {
		return fmt.Errorf("%w: %d peers", ErrLimit, t.peers)
	}
	a := t.all[name]
	if a == nil {
		a = &Account[P]{Name: name}
	}
	if called && a.called >= t.Limits.PeersPerAccount {
		return fmt.Errorf("%w: %d peers of %s", ErrLimit, a.called, name)
	}
	return t.Fits(a, bytes)
}

// Enter counts a connection that was admitted.
func (t *Accounts[P]) Enter(m *Member[P], peer P, name string, bytes int64, called bool) {
	a := t.all[name]
	if a == nil {
		a = &Account[P]{Name: name}
		if t.all == nil {
			t.all = map[string]*Account[P]{}
		}
		t.all[name] = a
	}
	*m = Member[P]{Peer: peer, Account: a, charged: bytes, called: called}
	t.peers++
	a.peers++
	if called {
		a.called++
	}
	t.Charge(a, bytes)
}

// Leave takes a connection off its account. Its memory is counted until it is given back.
func (t *Accounts[P]) Leave(m *Member[P]) {
	a := m.Account
	t.peers--
	a.peers--
	if m.called {
		a.called--
	}
	if i := slices.Index(a.starved, m); i >= 0 {
		a.starved = slices.Delete(a.starved, i, i+1)
	}
	t.drop(a)
}

// drop forgets an account for which nothing is counted.
func (t *Accounts[P]) drop(a *Account[P]) {
	if a.peers == 0 && a.bytes == 0 {
		delete(t.all, a.Name)
	}
}

// Fits returns why a party may not have so many bytes more, or nil.
func (t *Accounts[P]) Fits(a *Account[P], n int64) error {
	switch {
	case n > t.Limits.Bytes-t.bytes:
		return fmt.Errorf("%w: %d of %d bytes are in use", ErrLimit, t.bytes, t.Limits.Bytes)
	case n > t.Limits.BytesPerAccount-a.bytes:
		return fmt.Errorf("%w: %d of %d bytes are in use for %s", ErrLimit, a.bytes, t.Limits.BytesPerAccount, a.Name)
	}
	return nil
}

// fits is Fits without the words.
func (t *Accounts[P]) fits(a *Account[P], n int64) bool {
	return n <= t.Limits.Bytes-t.bytes && n <= t.Limits.BytesPerAccount-a.bytes
}

// Charge counts bytes for a party, if they are within the limits.
func (t *Accounts[P]) Charge(a *Account[P], n int64) bool {
	if !t.fits(a, n) {
		return false
	}
	a.bytes += n
	t.bytes += n
	return true
}

// Take is Charge for bytes that a connection needs to go on. If there are none, it is among the
// peers that Refund returns when there may be some (EP2).
func (t *Accounts[P]) Take(m *Member[P], n int64) bool {
	a := m.Account
	if t.Charge(a, n) {
		return true
	}
	if !m.starved {
		m.starved = true
		a.starved = append(a.starved, m)
	}
	if mutant.Enabled && mutant.On(mutant.TableOwnOnly) {
		return false
	}
	if !a.short && n > t.Limits.Bytes-t.bytes {
		a.short = true
		t.short = append(t.short, a)
	}
	return false
}

// Refund gives bytes of a party back, and returns the peers that have to be polled, because they
// found no memory. The list is valid until the next call.
func (t *Accounts[P]) Refund(a *Account[P], n int64) (again []P) {
	a.bytes -= n
	t.bytes -= n
	if invariants.Enabled {
		invariants.Check(a.bytes >= 0 && t.bytes >= a.bytes, "EP1", "more is given back than was charged")
	}
	clear(t.relieve)
	t.relieve = a.wake(t.relieve[:0])
	for i, other := range t.short {
		other.short = false
		t.relieve = other.wake(t.relieve)
		t.short[i] = nil
	}
	t.short = t.short[:0]
	t.drop(a)
	return t.relieve
}

// wake appends the peers of the account that found no memory.
func (a *Account[P]) wake(list []P) []P {
	for i, m := range a.starved {
		m.starved = false
		list = append(list, m.Peer)
		a.starved[i] = nil
	}
	a.starved = a.starved[:0]
	return list
}
