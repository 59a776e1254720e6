package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// errStranger refuses a request of a process that gets no state (X2).
var errStranger = fmt.Errorf("%w: not a fresh member of the view", fabric.ErrRefused)

// errStateless is why a fresh member gets nothing here.
var errStateless = errors.New("this member has no snapshot of the subgroup")

// A snapshot writes a state. Offer is one that is kept here, or will be.
type (
	snapshot = func(io.Writer) error
	offer    = shard.Offer[snapshot]
)

// offers are the snapshots that are or will be kept here.
type offers struct {
	id *trust.Identity

	mu      sync.Mutex
	kept    shard.Offers[snapshot]
	streams map[*shard.Wait]*outgoing // that are under way
}

func newOffers(self order.NodeID, id *trust.Identity, keeps func(string) bool) *offers {
	o := &offers{id: id, streams: map[*shard.Wait]*outgoing{}}
	o.kept = shard.Offers[snapshot]{Self: self, Keeps: keeps, Ends: o.cut}
	return o
}

// outgoing is a stream to a fresh member.
type outgoing struct{ end context.CancelFunc }

// cut ends the stream to a member. It needs mu.
func (o *offers) cut(w *shard.Wait) {
	if s := o.streams[w]; s != nil {
		s.end()
		delete(o.streams, w)
	}
}

// installed takes a view (X1).
func (o *offers) installed(v *views.View) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept.Installed(v)
}

// wanted reports whether a member waits for a snapshot that was not taken yet.
func (o *offers) wanted(view order.ViewID, subgroup int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.Wanted(view, subgroup)
}

// put keeps a snapshot, if a member still waits for it.
func (o *offers) put(view order.ViewID, subgroup int, write snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept.Put(view, subgroup, write)
}

// withhold notes that there will be no snapshot.
func (o *offers) withhold(view order.ViewID, subgroup int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept.Withhold(view, subgroup)
}

// ask judges a request (X2). A view that is not known here may come yet, so it is never refused for
// good; nor is a fresh member that waits no more, which learns why from the view in which that is
// so. The key is that of the answer; there is none if the view is not known.
func (o *offers) ask(conn net.Conn, c challenge, q request) (f *offer, w *shard.Wait, k *trust.Key, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f = o.kept.Find(q.View, q.Subgroup); f == nil {
		return nil, nil, nil, fmt.Errorf("%w: nothing is known here of %v", ErrLater, q)
	}
	common, err := key(o.id, f.View, o.kept.Self, q.Node)
	if err == nil {
		err = q.check(common, c)
	}
	r, _ := f.View.RankOf(q.Node)
	if err == nil {
		err = trust.CheckCertificate(conn, f.View.Members[r].Certificate)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w: %v", errStranger, err, q)
	}
	if !slices.Contains(f.Subgroup().Fresh, r) {
		return nil, nil, &common, fmt.Errorf("%w: %v", errStranger, q)
	}
	w, answer := o.kept.Ask(f, q.Node)
	switch {
	case answer == shard.NotWaits:
		return nil, nil, &common, fmt.Errorf("%w: it does not wait any more: %v", ErrLater, q)
	case q.Done || answer == shard.Granted:
		return f, w, &common, nil
	case answer == shard.NotKept:
		return nil, nil, &common, fmt.Errorf("%w: %q", errStateless, f.Subgroup().Name)
	}
	return nil, nil, &common, fmt.Errorf("%w: deliveries have not reached the boundary of view %d", ErrLater, q.View)
}

// stream begins a stream to a member, and ends an earlier one to it (X4).
func (o *offers) stream(w *shard.Wait) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(context.Background())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cut(w)
	if w.Over {
		end()
		return ctx, end
	}
	s := &outgoing{end}
	o.streams[w] = s
	return ctx, func() {
		end()
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.streams[w] == s {
			delete(o.streams, w)
		}
	}
}

// done ends the waiting of one.
func (o *offers) done(f *offer, w *shard.Wait) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept.Done(f, w.Member.ID)
}

// awaited returns the subgroups for whose snapshots members wait.
func (o *offers) awaited() (subgroups []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.Awaited()
}

// depended reports whether fresh members depend on this member.
func (o *offers) depended(v *views.View) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.Depended(v)
}

// clear forgets everything.
func (o *offers) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept.Clear()
}
