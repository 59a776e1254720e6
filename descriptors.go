package squall

import (
	"fmt"
	"sync"

	"github.com/squall-go/squall/internal/descriptors"
)

// What a process needs of file descriptors, rounded up.
const (
	// memberDescriptors is for each other member of a view: the connection of its row, with the
	// descriptors that come with it, the two connections for blocks, a conversation, and the two
	// questions, one in each direction, whether its process is there.
	memberDescriptors = 10
	// viewDescriptors is for a view, whatever its size: the own row, logs that are opened, and
	// connections that are accepted meanwhile.
	viewDescriptors = 16
)

// reserve holds the descriptors that the next view of a group takes. A view change opens all links
// of the next view while those of this one are still open, and it must not fail because the
// application has used up the descriptors of the process: the group would lose the member, and with
// few members its quorum.
type reserve struct {
	mu      sync.Mutex
	least   int // members: of the first call
	members int // that there are descriptors for
	share   descriptors.Share
	closed  bool
}

// fit makes the reserve as large as the change of a view of so many members to one of the same size
// needs, or of as many as the first call named, if that is more. It fails with ErrTooFewDescriptors
// if the process cannot have so many more, and as many again for the links of the view itself.
func (r *reserve) fit(members int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.least == 0 {
		r.least = members
	}
	members = max(members, r.least)
	if members == r.members || r.closed {
		return nil
	}
	need := viewDescriptors + memberDescriptors*(members-1)
	more := need
	if r.members > 0 {
		more = max(0, memberDescriptors*(members-r.members))
	}
	if err := r.share.Resize(need, more, fmt.Sprintf("a group of %d members", members)); err != nil {
		return err
	}
	r.members = members
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
	_ = r.share.Resize(0, 0, "") // a share that shrinks does not fail
	r.closed = true
}
