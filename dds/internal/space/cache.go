package space

import (
	"math"
	"slices"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/mutant"
)

// Masks of the states of samples and instances. A mask of 0 is any state.
type (
	SampleState   uint8
	ViewState     uint8
	InstanceState uint8
)

// The states, one bit each.
const (
	Read    SampleState = 1
	NotRead SampleState = 2

	New    ViewState = 1 // the first samples of an instance, or of one that came back
	NotNew ViewState = 2

	Alive     InstanceState = 1
	Disposed  InstanceState = 2
	NoWriters InstanceState = 4
)

// Held is a sample as a reader has it.
type Held struct {
	Position uint64 // in the order
	Writer   ID
	Origin   *Origin // of the writer, if it has one
	Source   int64
	Key      string
	Data     []byte
	Valid    bool // it has data; otherwise the state of the instance changed
	State    SampleState
	View     ViewState
	Instance InstanceState

	// DisposedGeneration and NoWritersGeneration count how often the instance had come back when the
	// sample came.
	DisposedGeneration, NoWritersGeneration int
	// SampleRank is the number of samples of the instance that follow in the same result.
	// GenerationRank is how often the instance came back between this sample and the last one of the
	// result, AbsoluteGenerationRank until now.
	SampleRank, GenerationRank, AbsoluteGenerationRank int
}

// Cache holds the samples of one reader of this process.
type Cache struct {
	Filter func(data []byte) bool // of the reader; nil lets everything through
	// Listener takes each sample where it has its position, in place of the cache: the data are valid
	// until it returns only. It is set before the reader is opened, and must not call the space. The
	// history that a new reader receives first is returned by Heard.
	Listener func(*Held)
	// Ready is called when a sample comes after Await.
	Ready func()

	of          *endpoint
	views       map[string]*view
	order       []*view         // in the order in which they came, and removed ones
	gone        int             // removed ones in order
	first, last *held           // older than those in fresh
	fresh       sequence[fresh] // of a reader that keeps all, what came since a call looked at single samples
	filling     *filling        // what comes before everything else; nil: nothing
	heard       []Held          // … of it, for the listener
	held        int
	lost        uint64
	detached    bool
	fed         bool  // of a client's reader
	gated       bool  // see Gate
	postponed   []Fed // what came while gated

	postponedBytes int // of these, about

	awaited bool
	timed   bool            // a sample may expire
	recent  *view           // of the last sample; nil: unknown
	passing Held            // for the listener
	present map[string]bool // of a client's reader: instances that have writers, as far as they are told
	chosen  []*held
	spare   *held // removed ones, by their next
	calls   uint64
}

// Await has Ready called with the next sample, once.
func (c *Cache) Await() { c.awaited = true }

// Ended reports whether the reader was closed. A reader that is being opened has not ended.
func (c *Cache) Ended() bool { return c.detached || c.of != nil && c.of.closed }

func (c *Cache) ready() {
	if c.awaited && c.Ready != nil {
		c.awaited = false
		c.Ready()
	}
}

// fresh is a sample that no call has looked at.
type fresh struct {
	position            uint64
	writer              *endpoint
	of                  *view
	source, expires     int64
	data                []byte
	disposed, noWriters int
}

// view is an instance as a reader sees it.
type view struct {
	key                 string
	state               InstanceState
	seen                bool // a sample was returned since it was new
	gone                bool // it was removed
	orphan              bool // at a client: the relay has said that it has no writers
	disposed, noWriters int  // generations
	valid               []*held
	fresh               int   // samples in the queue
	change              *held // the last sample without data
	passed              bool  // the time-based filter let a sample through
	at                  int64 // its time
	since               int64 // when it was no longer alive

	// Within a call of Select with this number: how many samples follow, and the generation of the
	// last one.
	call                  uint64
	following, generation int
}

// held is a Held in the list of the reader.
type held struct {
	Held
	of         *view
	expires    int64
	prev, next *held
	gone       bool
}

// Expect returns the cache of a reader that this process is about to open. It is filled from the
// position at which the reader is opened.
func (s *Space) Expect(id ID) *Cache {
	if s.expected == nil {
		s.expected = map[ID]*Cache{}
	}
	c := &Cache{views: map[string]*view{}}
	s.expected[id] = c
	return c
}

// Detach ends the cache of a reader of this process before the record that closes the reader: it is
// never full, and takes nothing.
func (s *Space) Detach(id ID) {
	delete(s.expected, id)
	if e := s.byID[id]; e != nil {
		if e.cache != nil {
			e.cache.detached = true
			e.cache.filling = nil
			e.cache.ready()
		}
		e.cache = nil
		e.settleWriters()
	}
}

// accept takes one sample of a matching writer that owns the instance, once what comes before it is
// there.
func (c *Cache) accept(s *Space, in *instance, k *kept) {
	if c.filling == nil || mutant.Enabled && mutant.On(mutant.SpaceLateFirst) {
		c.admit(s, in.key, k, s.now, false)
		return
	}
	k.own(s)
	c.filling.postpone(late{key: in.key, sample: *k, now: s.now})
}

// admit puts one sample into the cache, at a time of the order; past: the sample is one of a
// history, and had its position earlier.
func (c *Cache) admit(s *Space, key string, k *kept, now int64, past bool) {
	v := c.view(key)
	if v == nil && k.dispose || !k.dispose && c.Filter != nil && !c.Filter(k.data) {
		return
	}
	if v != nil {
		v.orphan = false
	}
	if k.dispose {
		c.becomes(v, Disposed, k.position, k.writer, k.source, now)
		return
	}
	if c.of.QoS.Reliability.Kind == qos.BestEffort && c.Listener == nil && !c.makeRoom(v) {
		c.lost++
		s.tell(Event{Kind: SampleLost, Endpoint: c.of.ID, Peer: k.writer.ID, Key: key, Count: 1})
		return
	}
	if v == nil {
		v = &view{key: key, state: Alive}
		c.views[v.key], c.order = v, append(c.order, v)
	}
	v.revive()
	if gap := int64(c.of.QoS.Separation); gap > 0 {
		at := now
		if past || s.follows || k.position == 0 { // the time of the order is not known
			at = k.source
		}
		if v.tooSoon(at, gap) {
			return
		}
	}
	if c.Listener != nil {
		h := &c.passing
		h.Position, h.Writer, h.Origin, h.Source, h.Data, h.Valid = k.position, k.writer.ID, k.writer.Origin, k.source, k.data, true
		c.pass(v)
		return
	}
	k.own(s)
	c.hold(v, k)
}

// revive begins another generation of an instance that was not alive.
func (v *view) revive() {
	switch v.state {
	case Alive:
		return
	case Disposed:
		v.disposed++
	default:
		v.noWriters++
	}
	v.state, v.seen = Alive, false
}

// hold puts a sample into the cache, in the place of the oldest one of its instance if that has
// too many.
func (c *Cache) hold(v *view, k *kept) {
	c.timed = c.timed || k.expires != math.MaxInt64
	c.ready()
	if c.of.QoS.History.All {
		c.fresh.push(fresh{k.position, k.writer, v, k.source, k.expires, k.data, v.disposed, v.noWriters})
		v.fresh++
		c.held++
		return
	}
	h := c.add(v, k.expires, Held{
		Position: k.position, Writer: k.writer.ID, Origin: k.writer.Origin, Source: k.source, Key: v.key, Data: k.data, Valid: true, State: NotRead,
		DisposedGeneration: v.disposed, NoWritersGeneration: v.noWriters,
	})
	c.held++
	v.valid = append(v.valid, h)
	if len(v.valid) > c.depth() {
		c.remove(v.valid[0])
	}
}

// tooSoon reports whether a sample follows the last one that passed before the separation is over,
// and notes one that passes.
func (v *view) tooSoon(at, gap int64) bool {
	if after := at - v.at; v.passed && after >= 0 && after < gap {
		return true
	}
	v.passed, v.at = true, at
	return false
}

// view finds an instance: mostly the instance of the sample before.
func (c *Cache) view(key string) *view {
	if c.recent == nil || c.recent.key != key {
		c.recent = c.views[key]
	}
	return c.recent
}

// pass gives a sample to the listener.
func (c *Cache) pass(v *view) {
	h := &c.passing
	h.Key, h.State, h.View, h.Instance, h.DisposedGeneration, h.NoWritersGeneration = v.key, NotRead, New, v.state, v.disposed, v.noWriters
	if v.seen {
		h.View = NotNew
	}
	v.seen = true
	if c.filling != nil {
		c.heard = append(c.heard, *h)
		return
	}
	c.Listener(h)
}

// spread moves the fresh samples to the list, because a call looks at single ones.
func (c *Cache) spread() {
	for f := range c.fresh.each {
		f.of.fresh--
		f.of.valid = append(f.of.valid, c.add(f.of, f.expires, Held{
			Position: f.position, Writer: f.writer.ID, Origin: f.writer.Origin, Source: f.source, Key: f.of.key, Data: f.data, Valid: true, State: NotRead,
			DisposedGeneration: f.disposed, NoWritersGeneration: f.noWriters,
		}))
	}
	c.fresh.drop(c.fresh.len())
}

// limited reports whether a reader may be full, and then holds up its writers.
func (c *Cache) limited() bool {
	l := c.of.QoS.Limits
	return c.of.QoS.Reliability.Kind == qos.Reliable && c.Listener == nil && l.Samples+l.SamplesPerInstance+l.Instances > 0
}

func (c *Cache) depth() int {
	if c.of.QoS.History.All {
		return math.MaxInt
	}
	return max(c.of.QoS.History.Depth, 1)
}

// full reports whether one more sample of an instance goes beyond the limits. With KEEP_LAST it
// replaces an older one.
func (c *Cache) full(v *view) bool {
	l := c.of.QoS.Limits
	n := 0
	if v != nil {
		n = len(v.valid) + v.fresh
	}
	if n >= c.depth() {
		return false
	}
	return l.Samples > 0 && c.held >= l.Samples || l.SamplesPerInstance > 0 && n >= l.SamplesPerInstance ||
		v == nil && l.Instances > 0 && len(c.views) >= l.Instances
}

// makeRoom drops the oldest sample that was read, of the instance or of all. It reports whether
// there is room.
func (c *Cache) makeRoom(v *view) bool {
	for h := c.first; h != nil && c.full(v); {
		next := h.next
		if h.State == Read && h.Valid {
			c.remove(h)
		}
		h = next
	}
	return !c.full(v)
}

// full reports whether a sample goes beyond the limits of a RELIABLE reader of this process. A set
// comes as a whole, when it ends.
func (w *endpoint) full(sample *Sample) bool {
	if sample.Set != 0 {
		return false
	}
	for _, c := range w.local {
		switch {
		case c.filling.behind(c):
			return true
		case sample.Operation != Write || c.Listener != nil || c.of.QoS.Reliability.Kind != qos.Reliable:
			continue
		}
		v := c.recent
		if v == nil || v.key != string(sample.Key) {
			v = c.views[string(sample.Key)]
		}
		if c.full(v) {
			return true
		}
	}
	return false
}

// settle ends an instance whose last matched writer is gone.
func (c *Cache) settle(s *Space, in *instance) {
	switch {
	case slices.ContainsFunc(in.writers, func(r registration) bool { return slices.Contains(r.writer.matched, c.of) }):
	case c.filling != nil:
		c.filling.postpone(late{key: in.key, end: true, position: s.position, now: s.now})
	default:
		c.withoutWriters(c.views[in.key], s.position, s.now)
	}
}

// becomes changes the state of an instance. The sample that tells so replaces an earlier one of its
// kind.
func (c *Cache) becomes(v *view, state InstanceState, position uint64, writer *endpoint, source, now int64) {
	if v.state == state {
		return
	}
	v.state, v.since = state, now
	if v.change != nil {
		c.remove(v.change)
	}
	change := Held{
		Position: position, Source: source, Key: v.key, State: NotRead, DisposedGeneration: v.disposed, NoWritersGeneration: v.noWriters,
	}
	if writer != nil {
		change.Writer, change.Origin = writer.ID, writer.Origin
	}
	if c.Listener != nil {
		c.passing = change
		c.pass(v)
		return
	}
	c.spread()
	c.ready()
	v.change = c.add(v, math.MaxInt64, change)
}

// add adds a sample to the end of the list.
func (c *Cache) add(v *view, expires int64, what Held) *held {
	h := c.spare
	if h == nil {
		h = &held{}
	} else {
		c.spare = h.next
	}
	*h = held{Held: what, of: v, expires: expires, prev: c.last}
	if c.last == nil {
		c.first = h
	} else {
		c.last.next = h
	}
	c.last = h
	return h
}

func (c *Cache) remove(h *held) {
	if h.gone {
		return
	}
	h.gone = true
	if h.prev == nil {
		c.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		c.last = h.prev
	} else {
		h.next.prev = h.prev
	}
	v := h.of
	switch {
	case !h.Valid:
		v.change = nil
	case v.valid[0] == h:
		v.valid = v.valid[1:]
	default:
		v.valid = slices.DeleteFunc(v.valid, func(o *held) bool { return o == h })
	}
	if h.Valid {
		c.held--
	}
	*h = held{gone: true, next: c.spare}
	c.spare = h
}

// Query selects samples. Masks of 0 are any state.
type Query struct {
	Max      int // 0: all
	Samples  SampleState
	Views    ViewState
	States   InstanceState
	Key      *string                // of one instance
	Matching func(data []byte) bool // of samples with data
	Take     bool                   // the samples are removed
	Now      int64                  // what has expired by then is removed
}

func any8[M ~uint8](mask, state M) bool { return mask == 0 || mask&state != 0 }

// all reports whether the query selects all samples that no call has looked at.
func (q *Query) all() bool {
	return q.Take && any8(q.Samples, NotRead) && q.Views == 0 && q.States == 0 && q.Key == nil && q.Matching == nil
}

// Timed reports whether Select depends on the time of the query.
func (c *Cache) Timed() bool { return c.timed || c.of.QoS.Purge != (qos.ReaderLifetime{}) }

// Select returns samples in the order of their positions, and marks them as read.
func (c *Cache) Select(q Query) []Held { return c.AppendSelect(nil, q) }

// AppendSelect is Select, and appends to out.
func (c *Cache) AppendSelect(out []Held, q Query) []Held {
	c.calls++
	if c.first == nil && q.all() {
		out = c.takeFresh(out, &q)
	} else {
		out = c.selectHeld(out, &q)
	}
	if c.of.QoS.Purge != (qos.ReaderLifetime{}) {
		for _, v := range c.known() {
			c.forget(v, q.Now)
		}
	}
	return out
}

// takeFresh takes samples in the order in which they came.
func (c *Cache) takeFresh(out []Held, q *Query) []Held {
	start, n := len(out), 0
	for f := range c.fresh.each {
		if q.Max > 0 && len(out)-start == q.Max {
			break
		}
		n++
		f.of.fresh--
		c.held--
		if f.expires <= q.Now {
			continue
		}
		h := Held{
			Position: f.position, Writer: f.writer.ID, Origin: f.writer.Origin, Source: f.source, Key: f.of.key, Data: f.data, Valid: true, State: NotRead, View: New, Instance: f.of.state,
			DisposedGeneration: f.disposed, NoWritersGeneration: f.noWriters,
		}
		if f.of.seen {
			h.View = NotNew
		}
		out = append(out, h)
	}
	// From the last one to the first: the ranks.
	k := len(out)
	for i := n - 1; i >= 0; i-- {
		if f := c.fresh.at(i); f.expires > q.Now {
			k--
			c.rank(&out[k], f.of)
		}
	}
	for i := range n {
		if f := c.fresh.at(i); f.expires > q.Now {
			f.of.seen = true
			if f.of.state != Alive {
				c.forget(f.of, q.Now)
			}
		}
	}
	c.fresh.drop(n)
	return out
}

// rank computes the ranks of a sample. It is called from the last sample of a result to the first.
func (c *Cache) rank(h *Held, v *view) {
	generation := h.DisposedGeneration + h.NoWritersGeneration
	if v.call != c.calls {
		v.call, v.following, v.generation = c.calls, 0, generation
	}
	h.SampleRank, h.GenerationRank = v.following, v.generation-generation
	h.AbsoluteGenerationRank = v.disposed + v.noWriters - generation
	v.following++
}

// selectHeld looks at single samples.
func (c *Cache) selectHeld(out []Held, q *Query) []Held {
	c.spread()
	chosen := c.chosen[:0]
	for h := c.first; h != nil; {
		next := h.next
		v := h.of
		view := New
		if v.seen {
			view = NotNew
		}
		switch {
		case h.expires <= q.Now:
			c.remove(h)
		case !any8(q.Samples, h.State) || !any8(q.Views, view) || !any8(q.States, v.state) || q.Key != nil && *q.Key != v.key:
		case q.Matching != nil && h.Valid && !q.Matching(h.Data):
		default:
			h.View, h.Instance = view, v.state
			chosen = append(chosen, h)
		}
		if q.Max > 0 && len(chosen) == q.Max {
			break
		}
		h = next
	}
	start := len(out)
	for _, h := range chosen {
		out = append(out, h.Held)
	}
	for i := len(chosen) - 1; i >= 0; i-- {
		c.rank(&out[start+i], chosen[i].of)
	}
	for _, h := range chosen {
		v := h.of
		h.State, v.seen = Read, true
		if q.Take {
			c.remove(h)
			c.forget(v, q.Now)
		}
	}
	clear(chosen)
	c.chosen = chosen[:0]
	return out
}

// forget removes an instance that has no writers, as expel does. A client has no instances: its
// relay says which have no writers.
func (c *Cache) forget(v *view, now int64) {
	if c.fed && !v.orphan {
		return
	}
	if in := c.of.topic.instances[v.key]; in != nil && slices.ContainsFunc(in.writers, func(r registration) bool { return slices.Contains(r.writer.matched, c.of) }) {
		return
	}
	c.expel(v, now)
}

// expel removes an instance that is not alive, has no samples, and is older than the reader
// remembers those.
func (c *Cache) expel(v *view, now int64) {
	keep := c.of.QoS.Purge.NoWriters
	if v.state == Disposed {
		keep = c.of.QoS.Purge.Disposed
	}
	if v.state == Alive || len(v.valid)+v.fresh > 0 || v.change != nil || keep > 0 && now-v.since < int64(keep) || c.views[v.key] != v {
		return
	}
	delete(c.views, v.key)
	c.recent = nil
	v.gone = true
	if c.gone++; 2*c.gone > len(c.order) { // each of the others is looked at once for each that goes, at most
		c.order, c.gone = c.known(), 0
	}
}

// known returns the instances that the reader knows, in the order in which they came.
func (c *Cache) known() []*view {
	all := make([]*view, 0, len(c.views))
	for _, v := range c.order {
		if !v.gone {
			all = append(all, v)
		}
	}
	return all
}

// Instance is the state of one instance.
type Instance struct {
	Key   string
	State InstanceState
}

// Instances returns the instances that the reader knows, in the order in which they came.
func (c *Cache) Instances() []Instance {
	all := make([]Instance, 0, len(c.views))
	for _, v := range c.known() {
		all = append(all, Instance{v.key, v.state})
	}
	return all
}

// Crowded reports whether a reader that may be full has less than half of its room.
func (c *Cache) Crowded() bool { return c.held > c.of.QoS.Limits.Samples/2 }

// Held is the number of samples with data, and Lost that of samples for which there was no room.
func (c *Cache) Held() int { return c.held }

// Empty reports whether there is nothing to take: neither samples nor ends of instances.
func (c *Cache) Empty() bool { return c.first == nil && c.fresh.len() == 0 }

// Lost is the number of samples for which there was no room.
func (c *Cache) Lost() uint64 { return c.lost }
