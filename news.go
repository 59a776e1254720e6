package squall

import (
	"context"
	"iter"
	"sync"
)

// news is the sequence of views, for readers that follow it at their own pace.
type news struct {
	mu     sync.Mutex
	list   []*View       // the views that some follower may not have seen; the last one is in force
	first  int           // number of the first one in list
	seen   map[*int]bool // how far each follower is
	bell   chan struct{} // closed, and made anew, with every view
	closed bool
}

// add appends a view.
func (n *news) add(v *View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, v)
	n.forget()
	n.ring()
}

// forget drops the views that all followers have seen, except the last one.
func (n *news) forget() {
	least := n.first + len(n.list) - 1
	for at := range n.seen {
		least = min(least, *at)
	}
	n.list = n.list[least-n.first:]
	n.first = least
}

func (n *news) ring() {
	if n.bell != nil {
		close(n.bell)
	}
	n.bell = make(chan struct{})
}

// close ends all followers.
func (n *news) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.ring()
}

// follow yields the view in force and each later one.
func (n *news) follow(ctx context.Context) iter.Seq[*View] {
	return func(yield func(*View) bool) {
		at := n.join()
		defer n.leave(at)
		for {
			v, bell, over := n.next(at)
			switch {
			case v != nil && !yield(v), over:
				return
			case v != nil:
				continue
			}
			select {
			case <-bell:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (n *news) join() *int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = map[*int]bool{}
	}
	at := n.first + max(0, len(n.list)-1)
	n.seen[&at] = true
	return &at
}

func (n *news) leave(at *int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.seen, at)
}

// next returns the follower's next view; without one it returns the channel that is closed with it,
// and whether none will come.
func (n *news) next(at *int) (v *View, bell <-chan struct{}, over bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bell == nil {
		n.bell = make(chan struct{})
	}
	if *at == n.first+len(n.list) {
		return nil, n.bell, n.closed
	}
	v = n.list[*at-n.first]
	*at++
	return v, nil, false
}
