package squall

import (
	"fmt"
	"sync"

	"github.com/squall-go/squall/internal/descriptors"
)

// What a process needs of file descriptors, rounded up.
const (
	// memberDescriptors is for each other member of a view: the connection of its row, with the
	// descriptors that come with it, the two connections for blocks, and a conversation.
	memberDescriptors = 8
	// viewDescriptors is for a view, whatever its size: the own row, logs that are opened, and
	// connections that are accepted meanwhile.
	viewDescriptors = 16
)

// reserve holds the descriptors that the next view of a group takes. A view change opens all links of
// the next view while those of this one are still open, and it must not fail because the application
// has used up the descriptors of the process: the group would lose the member, and with few members
// its quorum.
type reserve struct {
	mu       sync.Mutex
	members  int // that there are descriptors for
	releases []func()
	closed   bool
}

// grow makes the reserve large enough for the change of a view of so many members to one of the same
// size. It fails with ErrTooFewDescriptors if the process cannot have so many, and as many again for
// the links of the view itself.
func (r *reserve) grow(members int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if members <= r.members || r.closed {
		return nil
	}
	more := memberDescriptors * (members - max(r.members, 1))
	if r.members == 0 {
		more += viewDescriptors
	}
	release, err := descriptors.Hold(more, more, fmt.Sprintf("a group of %d members", members))
	if err != nil {
		return err
	}
	r.members, r.releases = members, append(r.releases, release)
	return nil
}

// full returns why there is no room for one more member, or nil.
func (r *reserve) full() error {
	return descriptors.Check(2*memberDescriptors, "one more member")
}

// close gives the reserve back.
func (r *reserve) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, release := range r.releases {
		release()
	}
	r.releases, r.closed = nil, true
}
