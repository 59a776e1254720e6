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
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/trust"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// errStranger is a request of somebody to whom nothing is given (X2).
var errStranger = fmt.Errorf("%w: not a fresh member of the view", fabric.ErrRefused)

// errStateless is why a fresh member gets nothing here.
var errStateless = errors.New("this member has no snapshot of the subgroup")

// offers are the snapshots that are kept here, and those that will be.
type offers struct {
	self  order.NodeID
	id    *trust.Identity
	keeps func(name string) bool // whether there are snapshots of a subgroup

	mu   sync.Mutex
	list []*offer
}

// offer is the state of a subgroup as a view begins.
type offer struct {
	view    *views.View
	index   int // of the subgroup
	waiting []*waiter
	none    bool                  // there will be no snapshot
	write   func(io.Writer) error // nil: not taken yet
}

// waiter is a fresh member that did not say that it is done.
type waiter struct {
	member views.Member
	ctx    context.Context // ended when it waits no more
	end    context.CancelFunc
	cut    context.CancelFunc // of the stream that is under way; nil: there is none
}

func (f *offer) subgroup() views.Subgroup { return f.view.Subgroups[f.index] }

// installed forgets what nobody waits for in a view, and expects the snapshots that the view asks for.
func (o *offers) installed(v *views.View) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.list {
		f.leave(func(w *waiter) bool { return !shard.StillWants(v, f.index, w.member) })
	}
	o.sweep()
	for i := range v.Subgroups {
		if f := o.expected(v, i); f != nil {
			o.list = append(o.list, f)
		}
	}
}

// expected is the offer that this member has to make for a subgroup, if any.
func (o *offers) expected(v *views.View, i int) *offer {
	sg := v.Subgroups[i]
	self, ok := v.RankOf(o.self)
	if !ok || len(sg.Fresh) == 0 || !sg.Has(self) || slices.Contains(sg.Fresh, self) {
		return nil
	}
	f := &offer{view: v, index: i, none: !o.keeps(sg.Name)}
	for _, r := range sg.Fresh {
		ctx, end := context.WithCancel(context.Background())
		f.waiting = append(f.waiting, &waiter{member: v.Members[r], ctx: ctx, end: end})
	}
	return f
}

// leave ends the waiting of some.
func (f *offer) leave(who func(*waiter) bool) {
	f.waiting = slices.DeleteFunc(f.waiting, func(w *waiter) bool {
		gone := who(w)
		if gone {
			w.end()
		}
		return gone
	})
}

// sweep drops what nobody waits for (X1). It needs mu.
func (o *offers) sweep() {
	o.list = slices.DeleteFunc(o.list, func(f *offer) bool { return len(f.waiting) == 0 })
	if invariants.Enabled {
		waiting := map[string]int{}
		for _, f := range o.list {
			for _, w := range f.waiting {
				waiting[fmt.Sprint(f.index, " ", w.member.ID)]++
			}
		}
		for who, n := range waiting {
			invariants.Check(n == 1, "X1", "snapshots that wait for subgroup and node %s: %d", who, n)
		}
	}
}

func (o *offers) find(view order.ViewID, subgroup int) *offer {
	i := slices.IndexFunc(o.list, func(f *offer) bool { return f.view.ID == view && f.index == subgroup })
	if i < 0 {
		return nil
	}
	return o.list[i]
}

// wanted reports whether somebody waits for a snapshot that was not taken.
func (o *offers) wanted(view order.ViewID, subgroup int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.find(view, subgroup)
	return f != nil && !f.none && f.write == nil
}

// put keeps a snapshot, if somebody still waits for it.
func (o *offers) put(view order.ViewID, subgroup int, write func(io.Writer) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.find(view, subgroup); f != nil {
		f.write = write
	}
}

// withhold notes that there will be no snapshot.
func (o *offers) withhold(view order.ViewID, subgroup int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.find(view, subgroup); f != nil {
		f.none = true
	}
}

// ask judges a request (X2). A view that is not known here may come yet, so it is never refused for good; nor is a fresh member
// that waits no more, which learns why from the view in which that is so. The key is that of the answer; there is none if the view is
// not known.
func (o *offers) ask(conn net.Conn, c challenge, q request) (f *offer, w *waiter, k *trust.Key, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f = o.find(q.View, q.Subgroup); f == nil {
		return nil, nil, nil, fmt.Errorf("%w: nothing is known here of %v", ErrLater, q)
	}
	common, err := key(o.id, f.view, o.self, q.Node)
	if err == nil {
		err = q.check(common, c)
	}
	r, _ := f.view.RankOf(q.Node)
	if err == nil {
		err = trust.CheckCertificate(conn, f.view.Members[r].Certificate)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w: %v", errStranger, err, q)
	}
	if !slices.Contains(f.subgroup().Fresh, r) {
		return nil, nil, &common, fmt.Errorf("%w: %v", errStranger, q)
	}
	i := slices.IndexFunc(f.waiting, func(w *waiter) bool { return w.member.ID == q.Node })
	switch {
	case i < 0:
		return nil, nil, &common, fmt.Errorf("%w: it does not wait any more: %v", ErrLater, q)
	case q.Done:
		return f, f.waiting[i], &common, nil
	case f.none:
		return nil, nil, &common, fmt.Errorf("%w: %q", errStateless, f.subgroup().Name)
	case f.write == nil:
		return nil, nil, &common, fmt.Errorf("%w: deliveries have not reached the boundary of view %d", ErrLater, q.View)
	}
	return f, f.waiting[i], &common, nil
}

// stream begins a stream to a member, and ends an earlier one to it (X4).
func (o *offers) stream(w *waiter) (context.Context, context.CancelFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.cut != nil {
		w.cut()
	}
	ctx, cut := context.WithCancel(w.ctx)
	w.cut = cut
	return ctx, cut
}

// done ends the waiting of one.
func (o *offers) done(f *offer, of *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f.leave(func(w *waiter) bool { return w == of })
	o.sweep()
}

// awaited returns the subgroups for whose snapshots somebody waits.
func (o *offers) awaited() (subgroups []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.list {
		if !f.none {
			subgroups = append(subgroups, f.index)
		}
	}
	return subgroups
}

// clear forgets everything.
func (o *offers) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.list {
		f.leave(func(*waiter) bool { return true })
	}
	o.list = nil
}
