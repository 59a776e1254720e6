package space

import (
	"math"
	"slices"
	"sort"

	"github.com/squall-go/squall/dds/qos"
)

// tail has the last steps of all topics, at a process with clients. A client's reader takes them
// from there, at its own pace; what the tail has dropped meanwhile, it gets from the history, or
// loses.
type tail struct {
	limit, bytes int
	base         uint64 // steps before the first one of all
	all          []step
	memory       []step // that contains all, after the space of the steps that were dropped
}

// add appends a step. It reuses the space of dropped steps when at least half of the steps are
// dropped, so that a step is copied once on average.
func (l *tail) add(t step) {
	if n := len(l.all); n == cap(l.all) {
		old := l.all
		if n == 0 || cap(l.memory)-n < n {
			l.memory = make([]step, 2*max(n, 8))
		}
		l.all = l.memory[:copy(l.memory, old)]
		clear(old)
	}
	l.all = append(l.all, t)
}

// floor is what the tail has dropped of a topic.
type floor struct {
	number   uint64 // of the last sample
	position uint64 // of the last step
}

// step is what happened to an instance at a position.
type step struct {
	kind            FedKind
	loose           bool   // the sample has no position: its own is that of the record before it
	position        uint64 // not less than that of the step before
	number          uint64 // of the topic's samples, with this one
	topic           *topic
	key             string
	writer          *endpoint
	offered         *qos.Set // by the writer, then
	source, expires int64
	data            []byte
	left            []*qos.Set // of the kind FedNoWriters: what the writers offered that the instance still had
}

// stepBytes is what a step takes besides its key and data, about.
const stepBytes = 150

func (t *step) bytes() int { return stepBytes + len(t.key) + len(t.data) + 8*len(t.left) }

// KeepTail has the space keep the last steps of its topics, in about so many bytes. Less than 1 is
// none.
func (s *Space) KeepTail(bytes int) {
	if bytes < 1 {
		s.tail = nil
		return
	}
	s.tail = &tail{limit: bytes}
	for _, t := range s.topics {
		t.floor = floor{t.count, s.position}
	}
}

// note adds a step to the tail, at the present position.
func (s *Space) note(t step) {
	l := s.tail
	t.position, t.number, t.offered = s.position, t.topic.count, t.writer.offer()
	l.add(t)
	l.bytes += t.bytes()
	drop := 0
	for l.bytes > l.limit && drop < len(l.all) {
		old := &l.all[drop]
		old.topic.floor = floor{old.number, old.position}
		l.bytes -= old.bytes()
		*old = step{}
		drop++
	}
	l.all = l.all[drop:]
	l.base += uint64(drop)
}

// noteSample notes a sample that takes effect, or the end of an instance. The tail has the data in
// common with the history and with caches that are queues.
func (s *Space) noteSample(t *topic, in *instance, w *endpoint, k *kept) {
	n := step{topic: t, kind: FedSample, key: in.key, writer: w, source: k.source, expires: k.expires, data: k.data}
	switch {
	case k.dispose:
		n.kind, n.data = FedDispose, nil
	case !k.borrowed:
		k.alone = false
	default:
		if n.data = s.copyForTail(k.data); w.queues {
			k.data, k.borrowed = n.data, false
		}
	}
	s.note(n)
}

// ownBytes is the size above which samples in the tail have memory of their own.
const ownBytes = 4 << 10

// copyForTail copies the data of a sample for the tail. A chunk is cleared before samples are
// copied to it, which was a quarter of a relay's processor time with samples of 10 KiB: large
// samples get memory that is not cleared.
func (s *Space) copyForTail(data []byte) []byte {
	if len(data) > ownBytes {
		return slices.Clone(data)
	}
	return s.memory.keep(data)
}

// noteLeft notes that a writer is not registered with an instance any more.
func (s *Space) noteLeft(t *topic, in *instance, w *endpoint) {
	if s.tail == nil {
		return
	}
	left := make([]*qos.Set, len(in.writers))
	for i := range in.writers {
		left[i] = in.writers[i].writer.offer()
	}
	s.note(step{topic: t, kind: FedNoWriters, key: in.key, writer: w, source: s.now, expires: math.MaxInt64, left: left})
}

// regrouped notes that a writer has other partitions, perhaps: readers may be without writers of
// its instances.
func (s *Space) regrouped(w *endpoint) {
	for _, in := range w.topic.order {
		if in.registration(w) != nil {
			s.noteLeft(w.topic, in, w)
		}
	}
}

// end is the number of steps that were ever noted.
func (l *tail) end() uint64 { return l.base + uint64(len(l.all)) }

// after is the number of the first step behind a position.
func (l *tail) after(position uint64) uint64 {
	return l.base + uint64(sort.Search(len(l.all), func(i int) bool { return l.all[i].position > position }))
}

// countAt is the number of a topic's samples before a step.
func (l *tail) countAt(n uint64, t *topic) uint64 {
	for i := n - l.base; i < uint64(len(l.all)); i++ {
		switch s := &l.all[i]; {
		case s.topic != t:
		case s.kind == FedSample && !s.loose:
			return s.number - 1
		default:
			return s.number
		}
	}
	return t.count
}

// FedKind is what a client's reader is told.
type FedKind uint8

// The kinds; the numbers are part of the format.
const (
	FedSample    FedKind = 0
	FedDispose   FedKind = 1 // of the instance
	FedNoWriters FedKind = 2 // the instance has none any more
	FedLost      FedKind = 3 // samples, Count of them
	FedPresent   FedKind = 4 // the instance has writers, by what is known again after a loss
	FedAbsent    FedKind = 5 // instances that were not told with FedPresent since the loss have no writers
)

// Fed is what a client's reader is told, where it has its position.
type Fed struct {
	Reader   uint32 // by which the client knows it
	Kind     FedKind
	Position uint64 // 0: the sample has none
	Writer   ID
	Origin   *Origin
	Source   int64
	Expires  int64
	Count    uint64
	Key      string
	Data     []byte

	filter func(data []byte) bool // of the reader; Pass calls it
}

// Pass returns those of fed that pass the filters of their readers. It is called without the lock
// under which Collect is: a filter of a client may take long. The memory of fed is used for the
// result.
func Pass(fed []Fed) []Fed {
	return slices.DeleteFunc(fed, func(f Fed) bool { return f.filter != nil && !f.filter(f.Data) })
}

// Reached is how far a reader has come.
type Reached struct {
	Position uint64 // everything up to it was told
	Count    uint64 // samples of the topic up to there, less the samples of the history that were not told yet
	Unlisted bool   // after a loss, the list of instances that have writers was not told to its end
}

// Resume is where a reader goes on.
type Resume struct {
	Born    int64       // of the space
	Lineage []ViewStart // of the space, where the reader got there
	Reached
}

// Follower has the readers of one client. Collect is called again and again, and tells what has
// happened since.
type Follower struct {
	s       *Space
	readers []*Followed
	mixed   bool
}

// Followed is a reader of a client: how far it has come in the tail.
type Followed struct {
	Number uint32                 // by which the client knows it
	Filter func(data []byte) bool // nil lets everything through
	Held   bool                   // nothing is to be told yet

	resume   *Resume
	joined   bool              // it was as far as the other readers of the client that want coherent access
	e        *endpoint         // nil: it is not open yet
	next     uint64            // steps before were looked at
	since    uint64            // steps without an order before this one are not for it
	position uint64            // everything up to it was told, once the backlog was
	count    uint64            // samples of the topic up to there
	backlog  []Fed             // what comes before the tail: this,
	listing  *listing          // then a history; nil: none,
	behind   []Fed             // and then this
	told     uint64            // position up to which these were told
	unlisted bool              // as in Reached
	matches  map[*qos.Set]bool // by what writers offer
	changes  uint64            // of the reader's own policies, that matches knows
}

// Follow returns a follower without readers. The space keeps a tail.
func (s *Space) Follow() *Follower { return &Follower{s: s} }

// Born is the time of the first record: two spaces with one name differ in it.
func (s *Space) Born() int64 { return s.born }

// Expect has the follower follow a reader from the record on that opens it, or from where an
// earlier one of the client ended.
func (f *Follower) Expect(id ID, r *Followed, from *Resume) {
	r.resume, r.matches = from, map[*qos.Set]bool{}
	if f.s.followed == nil {
		f.s.followed = map[ID]*Followed{}
	}
	f.s.followed[id] = r
	f.readers = append(f.readers, r)
}

// Drop ends following a reader.
func (f *Follower) Drop(id ID, r *Followed) {
	if f.s.followed[id] == r {
		delete(f.s.followed, id)
	}
	f.readers = slices.DeleteFunc(f.readers, func(o *Followed) bool { return o == r })
}

// begin is called when the reader was opened.
func (r *Followed) begin(s *Space, e *endpoint) {
	r.e = e
	r.since = s.tail.end()
	at := r.resume
	r.joined = at != nil
	if at != nil && at.Born == s.born {
		if common := s.common(at.Lineage, at.Position); common < at.Position && common >= e.topic.declared {
			r.depart(s, common)
			return
		} else if common < at.Position { // nothing of the topic is known to be there
			at = nil
		}
	}
	if at != nil && at.Born == s.born && at.Position >= e.topic.declared {
		r.position, r.count, r.unlisted, r.next = at.Position, at.Count, at.Unlisted, s.tail.after(at.Position)
		if r.catchUp(s); !r.due() { // what an interrupted history had not told yet is told step by step
			r.count = s.tail.countAt(r.next, e.topic)
		}
		return
	}
	r.next, r.position, r.count = r.since, s.position, e.topic.count
	r.told = e.topic.declared // a position before this one belongs to another topic of the same name
	if r.resume != nil {      // of another space or topic with this name: nothing of it is there any more
		r.backlog = append(r.backlog, Fed{Reader: r.Number, Kind: FedLost, Position: s.position})
	}
	if e.QoS.Durability > qos.Volatile {
		_ = r.history(0)
		for _, in := range e.topic.order {
			if !slices.ContainsFunc(in.writers, func(g registration) bool { return r.matched(g.writer.offer()) }) {
				r.behind = append(r.behind, Fed{Reader: r.Number, Kind: FedNoWriters, Position: s.position, Source: s.now, Key: in.key})
			}
		}
	}
	if r.resume != nil {
		r.instances(s)
	}
}

// depart goes on behind the last position that the space has in common with the space whose records
// the reader got: the space has lost records from there on, and others have their positions.
func (r *Followed) depart(s *Space, common uint64) {
	t := r.e.topic
	r.position, r.told = common, common
	r.backlog = append(r.backlog, Fed{Reader: r.Number, Kind: FedLost, Position: common})
	if common >= t.floor.position {
		r.next = s.tail.after(common)
		r.count, r.unlisted = s.tail.countAt(r.next, t), true // the list comes when the reader has come to the end of the tail
		return
	}
	_ = r.history(common)
	r.next, r.position, r.count = r.since, s.position, t.count
	r.instances(s)
}

// history has the reader be told of the samples and disposals in the history of the topic behind a
// position, if they match the reader and have not expired. It has a view of the history, so that
// what it costs here does not depend on how long that is. It returns the number of samples,
// including samples of writers that do not match, and samples that the filter drops.
func (r *Followed) history(after uint64) (samples uint64) {
	m, samples := r.e.topic.merge(after)
	if len(m.sources) > 0 {
		r.listing = &listing{m, samples}
	}
	return samples
}

// listing is a history that a reader is being told.
type listing struct {
	merged
	left uint64 // samples that it was not told of, or passed by
}

// instances appends which instances have writers, for a reader that has missed changes.
func (r *Followed) instances(s *Space) {
	r.unlisted = true
	for _, in := range r.e.topic.order {
		if in.disposed {
			r.behind = append(r.behind, Fed{Reader: r.Number, Kind: FedDispose, Position: s.position, Source: s.now, Expires: math.MaxInt64, Key: in.key})
		}
		if slices.ContainsFunc(in.writers, func(g registration) bool { return r.matched(g.writer.offer()) }) {
			r.behind = append(r.behind, Fed{Reader: r.Number, Kind: FedPresent, Position: s.position, Key: in.key})
		}
	}
	r.behind = append(r.behind, Fed{Reader: r.Number, Kind: FedAbsent, Position: s.position, Source: s.now})
}

// due reports whether something comes before the tail.
func (r *Followed) due() bool { return len(r.backlog) > 0 || r.listing != nil || len(r.behind) > 0 }

// catchUp goes on with the history if the tail has dropped steps that the reader was not told.
func (r *Followed) catchUp(s *Space) {
	t := r.e.topic
	if r.due() || r.position >= t.floor.position {
		return
	}
	missed := t.count - min(r.count, t.count)
	missed -= min(r.history(r.position), missed)
	if missed > 0 {
		r.backlog = append(r.backlog, Fed{Reader: r.Number, Kind: FedLost, Position: r.position, Count: missed})
	}
	r.instances(s)
	r.told, r.position = r.position, s.position
	r.next, r.count = s.tail.end(), t.count
	r.since = r.next
}

// offer is what a writer offers. A step has the policies that its writer had then.
func (w *endpoint) offer() *qos.Set {
	if w.offered == nil {
		set := w.QoS
		w.offered = &set
	}
	return w.offered
}

// matched reports whether a writer matches the reader.
func (r *Followed) matched(offered *qos.Set) bool {
	if r.changes != r.e.changes {
		clear(r.matches)
		r.changes = r.e.changes
	}
	m, known := r.matches[offered]
	if !known {
		if len(r.matches) >= maxMatches {
			clear(r.matches)
		}
		m, _ = qos.Match(offered, &r.e.QoS)
		r.matches[offered] = m
	}
	return m
}

// maxMatches bounds what a reader knows of policies, most of which may not be offered any more.
const maxMatches = 1 << 12

// At is how far a reader has come once everything was told that Collect has returned.
func (r *Followed) At() Reached {
	at := Reached{r.position, r.count, r.unlisted}
	if r.due() {
		at.Position = r.told
	}
	if r.listing != nil {
		at.Count -= r.listing.left
	}
	for i := range r.backlog {
		if b := &r.backlog[i]; b.Kind == FedLost {
			at.Count -= b.Count
		}
	}
	return at
}

// Open reports whether the reader was opened and not closed.
func (r *Followed) Open() bool { return r.e != nil && !r.e.closed }

// Readers returns the readers.
func (f *Follower) Readers() []*Followed { return f.readers }

// work bounds what Collect does at once, under its caller's lock.
type work struct{ bytes, steps int }

// collectSteps bounds the steps that Collect looks at: most of them may not be for the readers of
// this client.
const collectSteps = 4 << 10

func (w *work) done() bool { return w.bytes <= 0 || w.steps <= 0 }

// Mixed reports whether the last call of Collect had something for a reader that wants coherent
// access from before the tail: then positions are not in order.
func (f *Follower) Mixed() bool { return f.mixed }

// Apart reports whether the positions of the client's readers with coherent access differ. Collect
// delivers each set to a reader as a whole; but a reader that catches up with its history gets a
// set at another time than a reader that follows the tail. A new reader counts once its position is
// that of the other readers.
func (f *Follower) Apart() bool {
	n, due, first, last := 0, false, uint64(math.MaxUint64), uint64(0)
	wants := func(r *Followed) bool { return r.Open() && !r.Held && r.e.QoS.Presentation.Coherent }
	for _, r := range f.readers {
		if wants(r) && r.joined {
			n++
			due, first, last = due || r.due(), min(first, r.position), max(last, r.position)
		}
	}
	for _, r := range f.readers {
		if wants(r) && !r.joined && !r.due() && r.position >= last {
			r.joined = true
		}
	}
	return n > 1 && (due || first != last)
}

// Collect appends what readers were not told yet, up to about so many bytes, before filters: see
// Pass. What has one position comes in one call. More reports whether there may be more.
func (f *Follower) Collect(out []Fed, bytes int) (all []Fed, more bool) {
	s, w := f.s, work{bytes, collectSteps}
	next, end := s.tail.end(), s.tail.end()
	live := f.readers[:0:0]
	f.mixed = false
	for _, r := range f.readers {
		if !r.Open() || r.Held {
			continue
		}
		for r.catchUp(s); r.due() && !w.done(); r.catchUp(s) { // steps may have been dropped meanwhile
			f.mixed = f.mixed || r.joined && r.e.QoS.Presentation.Coherent
			out = r.tellHistory(s, out, &w)
		}
		if r.due() {
			more = true
			continue
		}
		live = append(live, r)
		next = min(next, max(r.next, s.tail.base))
	}
	last := uint64(0)
	for ; next < end; next++ {
		t := &s.tail.all[next-s.tail.base]
		if w.done() && t.position != last {
			more = true
			break
		}
		last = t.position
		w.steps--
		for _, r := range live {
			if next >= r.next && r.e.topic == t.topic {
				n := len(out)
				if out = r.look(s, next, t, out); len(out) > n {
					w.bytes -= t.bytes()
				}
			}
		}
	}
	for _, r := range live {
		r.next = max(r.next, next)
		if next == end {
			last = s.position
		}
		r.position = max(r.position, last)
		if r.unlisted && next == end { // the list was interrupted, and is told again as of now
			r.told, more = r.position, true
			r.instances(s)
		}
	}
	return out, more
}

// tellHistory appends what comes before the tail. What has one position is not split.
func (r *Followed) tellHistory(s *Space, out []Fed, w *work) []Fed {
	switch {
	case len(r.backlog) > 0:
		return r.tellBacklog(out, w)
	case r.listing != nil:
		return r.list(s, out, w)
	}
	r.backlog, r.behind = r.behind, nil
	return r.tellBacklog(out, w)
}

// list appends samples and disposals of a history.
func (r *Followed) list(s *Space, out []Fed, w *work) []Fed {
	l := r.listing
	for last := uint64(0); len(l.sources) > 0; l.advance() {
		o := &l.sources[0]
		k := o.view.at(o.next)
		if w.done() && k.position != last {
			return out
		}
		last = k.position
		w.steps--
		r.told = max(r.told, k.position)
		if !k.dispose {
			l.left--
		}
		if k.expires <= s.now || !r.matched(k.writer.offer()) {
			continue
		}
		n := Fed{
			Reader: r.Number, Kind: FedSample, Position: k.position, Writer: k.writer.ID, Origin: k.writer.Origin, Source: k.source, Expires: k.expires,
			Key: o.key, Data: k.data, filter: r.Filter,
		}
		if k.dispose {
			n.Kind, n.filter = FedDispose, nil
		}
		w.bytes -= stepBytes + len(n.Key) + len(n.Data)
		out = append(out, n)
	}
	r.listing = nil
	return out
}

// tellBacklog appends what is known already.
func (r *Followed) tellBacklog(out []Fed, w *work) []Fed {
	n := 0
	for ; n < len(r.backlog) && !w.done(); n++ {
		b := &r.backlog[n]
		w.steps--
		w.bytes -= stepBytes + len(b.Key)
		out = append(out, *b)
		if b.Kind == FedAbsent { // an interrupted list of instances begins anew
			r.told, r.unlisted = max(r.told, b.Position), false
		}
	}
	clear(r.backlog[:n])
	r.backlog = r.backlog[n:]
	return out
}

// look appends a step if the reader is to be told.
func (r *Followed) look(s *Space, n uint64, t *step, out []Fed) []Fed {
	if t.loose {
		if n < r.since {
			return out
		}
	} else if r.count = max(r.count, t.number); t.position <= r.position {
		return out
	}
	switch t.kind {
	case FedNoWriters:
		if slices.ContainsFunc(t.left, r.matched) {
			return out
		}
	case FedSample:
		if t.expires <= s.now {
			return out
		}
		fallthrough
	default:
		if !r.matched(t.offered) {
			return out
		}
	}
	fed := Fed{Reader: r.Number, Kind: t.kind, Position: t.position, Writer: t.writer.ID, Origin: t.writer.Origin, Source: t.source, Expires: t.expires, Key: t.key, Data: t.data}
	if t.kind == FedSample {
		fed.filter = r.Filter
	}
	if t.loose {
		fed.Position = 0
	}
	return append(out, fed)
}
