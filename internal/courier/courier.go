package courier

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/views"
)

var (
	// ErrLargeMemory says that a sender has more under way than it may.
	ErrLargeMemory = errors.New("more bytes of large messages in flight than LargeMemory allows")
	errEnded       = errors.New("the view is over")
)

// Config describes one process's end of the transfers of a subgroup of a view.
type Config struct {
	Open        func(GroupConfig) (Group, error) // see Over
	Self        order.Rank
	View        *views.View
	Subgroup    int // its place in the view
	MaxMessage  int
	LargeMemory int
	// Room makes the memory of a body that is announced; the name is good for a file. InPlace wants to
	// look at a body where it lies, if that is memory of its sender on this host: then no room is made
	// for it.
	Room    func(name string, size int64) (*multicast.Body, error)
	InPlace bool
	// Failed is told of a member with which transfers do not work, Refused of why this process itself
	// has no room for a body. Both are called on any goroutine, and not after End.
	Failed  func(node order.NodeID, why error)
	Refused func(why error)
	// Go runs a function beside everything else.
	Go func(func())
}

// Courier is such an end. It implements member.Transfers.
type Courier struct {
	cfg    Config
	sg     views.Subgroup
	own    int     // this process's rank among the senders, or -1
	groups []Group // by sender rank; none if this process is alone

	mu     sync.Mutex
	ended  bool
	closed bool
	bytes  []int // by sender rank: of what is coming, and of what is here and not taken (CO1)
	come   []parcel
	here   []parcel
}

// parcel is a body that comes, or is here.
type parcel struct {
	sender int
	id     uint64
	body   *multicast.Body
}

// New opens the groups of transfers. Their connections come up in the background.
func New(cfg Config) (*Courier, error) {
	sg := cfg.View.Subgroups[cfg.Subgroup]
	c := &Courier{cfg: cfg, sg: sg, own: -1, bytes: make([]int, len(sg.Senders))}
	if k, ok := sg.SenderRank(cfg.Self); ok {
		c.own = int(k)
	}
	if len(sg.Members) == 1 {
		return c, nil
	}
	for k := range sg.Senders {
		g, err := cfg.Open(c.group(k))
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("transfers of subgroup %q in view %d: %w", sg.Name, cfg.View.ID, err)
		}
		c.groups = append(c.groups, g)
	}
	return c, nil
}

// group describes the transfers of one sender.
func (c *Courier) group(k int) GroupConfig {
	v := c.cfg.View
	g := rdmc.GroupConfig{
		Name: fmt.Sprintf("%s/%d/%d/%d", v.Cluster, v.ID, c.cfg.Subgroup, k), Key: v.Key(),
		Root: slices.Index(c.sg.Members, c.sg.Senders[k]), MaxMessageBytes: int64(c.cfg.MaxMessage),
		Incoming: func(in rdmc.Incoming) ([]byte, error) { return c.incoming(k, in) },
		Aborted:  func(in rdmc.Incoming, _ error) { c.aborted(k, in) },
		Failed:   c.failed,
		InPlace:  c.cfg.InPlace,
	}
	for _, r := range c.sg.Members {
		m := v.Members[r]
		g.Members = append(g.Members, rdmc.Peer{ID: m.ID, Addr: m.Addr, Host: m.Host, SHM: m.SHM, PublicKey: m.PublicKey, Certificate: m.Certificate})
	}
	return GroupConfig{GroupConfig: g, Completed: func(in rdmc.Incoming, data []byte, release func()) { c.completed(k, in, data, release) }}
}

// Send implements member.Transfers.
func (c *Courier) Send(id uint64, body *multicast.Body, filled int, done func(error)) member.Transfer {
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.here = append(c.here, parcel{c.own, id, body.Hold()})
	}
	c.mu.Unlock()
	s := &sending{courier: c, id: id}
	switch {
	case ended:
		done(errEnded)
		return s
	case len(c.groups) == 0:
		s.alone(body, filled, done)
		return s
	}
	var err error
	s.Sending, err = c.groups[c.own].Start(rdmc.Outgoing{Tag: id, Data: body.Data, Filled: int64(filled), Everywhere: done})
	if err != nil {
		done(err)
	}
	return s
}

// sending is a body on its way. It implements member.Transfer.
type sending struct {
	Sending // nil: it goes nowhere
	courier *Courier
	id      uint64
	size    int         // if it goes nowhere
	done    func(error) // told when it is filled, or given up; nil: it was
}

// alone is the case of a process without other members to send to.
func (s *sending) alone(body *multicast.Body, filled int, done func(error)) {
	s.size, s.done = len(body.Data), done
	s.Fill(filled)
}

// ends tells what became of a body that goes nowhere.
func (s *sending) ends(err error) {
	if s.done != nil {
		s.done(err)
		s.done = nil
	}
}

// Fill implements member.Transfer.
func (s *sending) Fill(n int) {
	switch {
	case s.Sending != nil:
		s.Sending.Fill(int64(n))
	case n == s.size:
		s.ends(nil)
	}
}

// Abort implements member.Transfer.
func (s *sending) Abort(reason error) {
	if s.Sending != nil {
		s.Sending.Abort(reason)
	} else {
		s.ends(reason)
	}
	if b := s.courier.Take(order.SenderRank(s.courier.own), s.id); b != nil {
		b.Release()
	}
}

// incoming makes room for a body.
func (c *Courier) incoming(k int, in rdmc.Incoming) ([]byte, error) {
	size := int(in.Size)
	c.mu.Lock()
	room := c.cfg.LargeMemory - c.bytes[k]
	if size <= room {
		c.bytes[k] += size
	}
	c.mu.Unlock()
	if size > room {
		return nil, fmt.Errorf("%w: a message of %d bytes, %d are left", ErrLargeMemory, size, room)
	}
	body, err := c.cfg.Room(fmt.Sprintf("%d-%d-%d-%d", c.cfg.View.ID, c.cfg.Subgroup, c.cfg.View.Members[c.sg.Senders[k]].ID, in.Tag), in.Size)
	if err != nil {
		c.refused(err)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.come = append(c.come, parcel{k, in.Tag, body})
	return body.Data, nil
}

func (c *Courier) refused(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.cfg.Refused(why)
	}
}

// take takes a parcel out of a list.
func take(list *[]parcel, k int, id uint64) *multicast.Body {
	i := slices.IndexFunc(*list, func(p parcel) bool { return p.sender == k && p.id == id })
	if i < 0 {
		return nil
	}
	b := (*list)[i].body
	*list = slices.Delete(*list, i, i+1)
	return b
}

// completed notes that a body is here whole (CO2).
func (c *Courier) completed(k int, in rdmc.Incoming, data []byte, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := take(&c.come, k, in.Tag)
	if release != nil { // no room was made: it lies in memory of its sender, which counts it
		b = multicast.NewBody(data, "", release)
		c.bytes[k] += len(data)
	}
	switch {
	case b == nil:
	case c.closed: // it will not be taken
		b.Release()
	default:
		c.here = append(c.here, parcel{k, in.Tag, b})
	}
}

// aborted frees what will not come.
func (c *Courier) aborted(k int, in rdmc.Incoming) {
	c.mu.Lock()
	b := take(&c.come, k, in.Tag)
	if b == nil { // the body is complete here, and other members may lack it
		b = take(&c.here, k, in.Tag)
	}
	if b != nil && !(mutant.Enabled && mutant.On(mutant.RoomKept)) {
		c.bytes[k] -= len(b.Data)
	}
	c.mu.Unlock()
	if b != nil {
		b.Release()
	}
}

// failed tells of the member at fault. A member that left the transfers is in a view change that
// this one will hear of.
func (c *Courier) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var f *rdmc.Failure
	if c.ended || errors.Is(err, rdmc.ErrDiscarded) || !errors.As(err, &f) || f.Node == c.cfg.View.Members[c.cfg.Self].ID {
		return
	}
	c.cfg.Failed(f.Node, err)
}

// Take implements member.Transfers.
func (c *Courier) Take(sender order.SenderRank, id uint64) *multicast.Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := take(&c.here, int(sender), id)
	if b != nil && int(sender) != c.own {
		c.bytes[sender] -= len(b.Data)
	}
	return b
}

// End implements member.Transfers.
func (c *Courier) End() {
	c.mu.Lock()
	ended := c.ended
	c.ended = true
	c.mu.Unlock()
	if ended {
		return
	}
	for _, g := range c.groups {
		g.Discard()
	}
	c.cfg.Go(c.drop)
}

// drop frees what is half here, when nothing writes to it any more (CO3).
func (c *Courier) drop() {
	for _, g := range c.groups {
		<-g.Done()
	}
	c.mu.Lock()
	come := c.come
	c.come = nil
	c.mu.Unlock()
	for _, p := range come {
		p.body.Release()
	}
}

// Close implements member.Transfers.
func (c *Courier) Close() {
	c.End()
	c.mu.Lock()
	here := c.here
	c.here, c.closed = nil, true
	c.mu.Unlock()
	for _, p := range here {
		p.body.Release()
	}
}
