package ripc

import (
	"sync"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// sender is the sending half of a pair, and the goroutines that wait for space in it. Its mu guards
// the half if the peer reads the own row itself. Otherwise the endpoint's mu does, because sending
// then works the socket: lock and unlock do nothing.
type sender struct {
	direct bool
	mu     sync.Mutex
	tx     *pair.Sender
	over   bool // nothing is sent any more

	// Under the endpoint's mu.
	room  pair.Queue[*waiter] // goroutines that wait for buffer space
	woken []*waiter           // memory of wake
}

func (s *sender) lock() {
	if s.direct {
		s.mu.Lock()
	}
}

func (s *sender) unlock() {
	if s.direct {
		s.mu.Unlock()
	}
}

// put puts a frame into the ring. The caller holds the lock.
func (s *sender) put(k pair.Kind, channel int, id uint64, parts [][]byte) (status pair.Status, over bool) {
	if s.over {
		return pair.NoRoom, true
	}
	status = s.tx.Put(k, channel, id, parts)
	return status, status == pair.Shut
}

// end has nothing sent any more.
func (s *sender) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// wrong is what is wrong with the peer's words, if anything.
func (s *sender) wrong() error {
	s.lock()
	defer s.unlock()
	return s.tx.Err()
}

// reopen begins the use of a channel.
func (s *sender) reopen(channel int) {
	s.lock()
	defer s.unlock()
	s.tx.Reopen(channel)
}

// leave ends the use of a channel on which this side sends no more.
func (s *sender) leave(channel int) {
	s.lock()
	defer s.unlock()
	s.tx.Leave(channel)
}

// shut ends the use of a channel that the peer closed after it received so many messages.
func (s *sender) shut(channel int, received uint64) error {
	s.lock()
	defer s.unlock()
	return s.tx.Shut(channel, received)
}

// isDrained reports whether all messages of a channel were received, or never will be.
func (s *sender) isDrained(channel int) bool {
	s.lock()
	defer s.unlock()
	return s.tx.IsShut(channel) || s.tx.WasReceived(channel, s.tx.Messages(channel))
}

// giveUp notes that no goroutine waits any more for a request, which was sent after so many
// messages.
func (s *sender) giveUp(channel int, messages uint32) {
	s.lock()
	defer s.unlock()
	s.tx.GiveUp(channel, messages)
}

// total is what was sent.
func (s *sender) total() (frames, bytes uint64) {
	s.lock()
	defer s.unlock()
	return s.tx.Total()
}

// A sender that finds no space goes round so often before it waits, as long as the receiver may
// take to give back a part of the ring, and looks now and then: each look takes from the receiver
// the line that it writes.
const (
	roomLooks     = 20000
	roomLookEvery = 200
)

// roomSoon looks for room for a moment, without telling the receiver: a receiver that does not know
// of a waiting sender gives room back in larger parts.
func (s *sender) roomSoon(k pair.Kind, channel, n int) bool {
	if !s.direct {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for round := range roomLooks {
		if round%roomLookEvery == 0 && (s.over || s.tx.Room(k, channel, n)) {
			return true
		}
	}
	return false
}

// wake returns the goroutines that wait for buffer space and have it (RP16). The list is valid
// until the next call.
func (s *sender) wake() []*waiter {
	if s.room.Len() == 0 {
		return nil
	}
	clear(s.woken)
	s.lock()
	s.woken = s.room.Wake(s.tx, s.woken[:0])
	s.unlock()
	return s.woken
}
