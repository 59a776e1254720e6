package space

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/mutant"
)

// topic is its declaration, its endpoints, its instances and its history.
type topic struct {
	TopicInfo
	writers, readers []*endpoint
	instances        map[string]*instance
	order            []*instance // in the order in which they came
	gone             bool        // order has instances that were removed, until tidy is called
	source           int64       // the largest source time, of a topic by source
	kept             int         // samples in all histories
	recent           *instance   // of the last sample; nil: unknown
	spare            [][]byte    // memory of samples that the history has dropped
	memory           chunks      // of samples of a history that keeps all
	loose            int         // samples in all histories that have borrowed data
	declared         uint64      // position of the record that declared it
	count            uint64      // samples that took effect
	floor            floor       // what the tail has dropped
	sweep            int64       // nothing of the topic is due before
}

// instance is what the records say of one key. A topic without keys has one.
type instance struct {
	key       string
	writers   []registration
	disposed  bool
	since     int64          // when it was disposed of and lost its last writer
	history   sequence[kept] // of a durable topic
	disposals int            // of these
	gone      bool           // it was removed
	captured  int            // of these, the first ones are in a view, perhaps: they are not changed, and their data not used again
	loose     int            // of these, some of the last ones have borrowed data
}

// registration is a writer that has written an instance and not unregistered it.
type registration struct {
	writer *endpoint
	last   int64  // time of the last write
	writes uint64 // samples of this writer
	lapsed bool   // it missed its deadline, and has not written since
}

// kept is a sample of a history, or the end of an instance.
type kept struct {
	position uint64
	writer   *endpoint
	source   int64
	expires  int64
	data     []byte
	dispose  bool
	borrowed bool // the data are valid only until Apply returns or, in a history, until Settle or Repay
	alone    bool // nothing but the history has the data, once they are not borrowed
}

func (t *topic) same(info TopicInfo) bool {
	return t.Type == info.Type && t.Keyed == info.Keyed && slices.Equal(mustEncode(t.QoS), mustEncode(info.QoS))
}

func (in *instance) registration(w *endpoint) *registration {
	for i := range in.writers {
		if in.writers[i].writer == w {
			return &in.writers[i]
		}
	}
	return nil
}

// domainOf is what writers have in common that compete for an instance: the same partitions.
func domainOf(set *qos.Set) string {
	p := slices.Clone(set.Partitions)
	slices.Sort(p)
	return strings.Join(slices.Compact(p), "\x00")
}

// owner is the writer that may update an instance: the strongest one in a domain that has not
// missed its deadline, and of equally strong ones the one with the least id.
func (in *instance) owner(domain string) *endpoint {
	var best *endpoint
	for i := range in.writers {
		w := in.writers[i].writer
		lapsed := in.writers[i].lapsed
		if mutant.Enabled && mutant.On(mutant.SpaceLapsedOwns) {
			lapsed = false
		}
		if lapsed || domainOf(&w.QoS) != domain {
			continue
		}
		if best == nil || w.QoS.Strength > best.QoS.Strength || w.QoS.Strength == best.QoS.Strength && w.ID.less(best.ID) {
			best = w
		}
	}
	return best
}

// SourceAhead is how far a sample's source time may be after the time of the order at its position:
// a later one is set back. One clock that is wrong would have the samples of all writers of a topic
// BY_SOURCE come too late, or never expire.
const SourceAhead = time.Second

// apply does what a sample says. It takes effect only if its writer owns the instance.
func (t *topic) apply(s *Space, w *endpoint, sample *Sample) {
	expires := t.dated(s, w, sample)
	in := t.recent
	if in == nil || in.key != string(sample.Key) {
		if in = t.find(sample); in == nil {
			return
		}
	}
	if sample.Operation == Unregister {
		t.unregister(s, in, w, w.QoS.KeepUnregistered, sample.Source)
		t.tidy()
		return
	}
	t.recent = in
	reg := in.registered(w)
	reg.last, reg.lapsed = s.now, false
	reg.writes++
	owns := t.QoS.Ownership == qos.Shared || in.owner(domainOf(&w.QoS)) == w
	if mutant.Enabled && mutant.On(mutant.SpaceAnyOwner) {
		owns = true
	}
	if sample.Operation == Register || !owns {
		return
	}
	var k kept // filled field by field: of a literal the compiler makes a copy
	k.position, k.writer, k.source, k.expires, k.dispose = s.position, w, sample.Source, expires, sample.Operation == Dispose
	if k.dispose {
		k.expires = math.MaxInt64
	}
	if k.expires <= s.now {
		return
	}
	in.disposed = k.dispose
	durable := w.QoS.Durability > qos.Volatile
	switch {
	case k.dispose:
	case durable && s.lazy && !w.holds && s.tail == nil:
		k.data, k.borrowed, k.alone = sample.Data, true, true
	case durable:
		k.data, k.alone = t.copied(sample.Data), !w.holds
	default:
		k.data, k.borrowed = sample.Data, true
	}
	if !k.dispose {
		t.count++
	}
	if s.tail != nil {
		s.noteSample(t, in, w, &k)
	}
	if durable {
		t.remember(s, in, k)
		t.due(s, k.expires)
	}
	for _, c := range w.local {
		c.accept(s, in, &k)
	}
}

// dated bounds a sample's source time on both sides, and returns when the sample expires.
func (t *topic) dated(s *Space, w *endpoint, sample *Sample) (expires int64) {
	sample.Source = min(sample.Source, s.now+int64(SourceAhead))
	expires = expiry(t, w, min(sample.Source, s.now))
	if t.QoS.Order == qos.BySource {
		if !mutant.Enabled || !mutant.On(mutant.SpaceSourceBack) {
			sample.Source = max(sample.Source, t.source)
		}
		t.source = sample.Source
	}
	return expires
}

// find returns the instance of a sample, and makes it; nil: one that is not there is unregistered.
func (t *topic) find(sample *Sample) *instance {
	in := t.instances[string(sample.Key)]
	if in == nil && sample.Operation != Unregister {
		in = &instance{key: string(sample.Key)}
		t.instances[in.key], t.order = in, append(t.order, in)
	}
	return in
}

// registered returns the registration of a writer, and makes it.
func (in *instance) registered(w *endpoint) *registration {
	reg := in.registration(w)
	if reg == nil {
		in.writers = append(in.writers, registration{writer: w})
		reg = &in.writers[len(in.writers)-1]
	}
	return reg
}

// own makes the data of a sample that caches keep theirs.
func (k *kept) own(s *Space) {
	switch {
	case !k.borrowed:
	case k.writer.queues:
		k.data = s.memory.keep(k.data)
	default: // a single sample that stays would hold a whole chunk
		k.data = slices.Clone(k.data)
	}
	k.borrowed = false
}

// expiry is when a sample of a time expires: its source time, or the earlier time of the order.
func expiry(t *topic, w *endpoint, source int64) int64 {
	life := w.QoS.Lifespan
	if life == 0 {
		life = t.QoS.Lifespan
	}
	if life == 0 || source > math.MaxInt64-int64(life) {
		return math.MaxInt64
	}
	return source + int64(life)
}

// remember adds a sample to the history, within the depth and the limits of the topic.
func (t *topic) remember(s *Space, in *instance, k kept) {
	in.remember(k)
	t.kept++
	if k.borrowed {
		s.lend(t, in, &k)
	}
	if k.borrowed || in.loose > 0 {
		in.loose++
	}
	depth := max(t.QoS.Service.History.Depth, 1)
	if t.QoS.Service.History.All {
		depth = math.MaxInt
	}
	if n := t.QoS.Service.Limits.SamplesPerInstance; n > 0 {
		depth = min(depth, n)
	}
	if mutant.Enabled && mutant.On(mutant.SpaceTooDeep) && depth < math.MaxInt {
		depth++
	}
	if over := in.history.len() - depth; over > 0 {
		t.drop(in, over)
	}
	for limit := t.QoS.Service.Limits.Samples; limit > 0 && t.kept > limit; {
		old := t.oldest()
		t.drop(old, 1)
		t.clean(s, old)
		t.tidy()
	}
}

// remember adds a sample to the end of the history.
func (in *instance) remember(k kept) {
	if k.dispose {
		in.disposals++
	}
	in.history.push(k)
}

func (t *topic) drop(in *instance, n int) {
	for i := 0; in.disposals > 0 && i < n; i++ {
		if in.history.at(i).dispose {
			in.disposals--
		}
	}
	shared := min(n, in.captured)
	in.captured -= shared
	for i := shared; i < n; i++ {
		switch k := in.history.at(i); {
		case k.borrowed:
			t.loose--
		case k.alone && len(t.spare) < maxSpare+t.loose:
			t.spare = append(t.spare, k.data[:0])
		}
	}
	in.history.drop(n)
	in.loose = min(in.loose, in.history.len())
	t.kept -= n
	t.trim()
}

// trim frees the memory of dropped samples that the history need not have: it may have to copy what
// it has borrowed, soon, and a topic without samples nothing.
func (t *topic) trim() {
	switch most := maxSpare + t.loose; {
	case t.kept == 0:
		t.spare, t.memory = nil, chunks{}
	case len(t.spare) > most:
		clear(t.spare[most:])
		t.spare = t.spare[:most]
	}
}

// remove removes samples from a history. The other ones keep what they have borrowed: a loan names
// positions of the order, and not places in the history.
func (t *topic) remove(in *instance, out func(*kept) bool) {
	captured, loose := in.captured, in.history.len()-in.loose
	t.kept -= in.history.remove(func(i int, k *kept) bool {
		if !out(k) {
			return false
		}
		if k.dispose {
			in.disposals--
		}
		if k.borrowed {
			t.loose--
		}
		if i < captured {
			in.captured--
		}
		if i >= loose {
			in.loose--
		}
		return true
	})
	t.trim()
}

// view returns the history as it is: it stays so, and its data, too.
func (t *topic) view(in *instance) sequence[kept] {
	if !mutant.Enabled || !mutant.On(mutant.SpaceViewBorrows) {
		t.settle(in, 0, math.MaxUint64)
	}
	in.captured = in.history.len()
	return in.history.view()
}

// maxSpare is how many dropped samples a history has the memory of, beside one for each sample that
// it has borrowed.
const maxSpare = 16

// copied returns a copy of the data of a sample for the history.
func (t *topic) copied(data []byte) []byte {
	if b := t.dropped(len(data)); b != nil || !t.QoS.Service.History.All {
		return append(b, data...)
	}
	return t.memory.keep(data)
}

// dropped returns the memory of a dropped sample, if it suits n bytes.
func (t *topic) dropped(n int) []byte {
	last := len(t.spare) - 1
	if last < 0 {
		return nil
	}
	b := t.spare[last]
	t.spare = t.spare[:last]
	if cap(b) < n || cap(b) > 2*n+64 {
		return nil
	}
	return b
}

// oldest is the instance with the oldest sample of all.
func (t *topic) oldest() *instance {
	var first *instance
	for _, in := range t.order {
		if in.history.len() > 0 && (first == nil || in.history.at(0).position < first.history.at(0).position) {
			first = in
		}
	}
	return first
}

// unregister ends the part of a writer in an instance. Unless the writer keeps what it unregisters,
// the instance is disposed of if the writer owns it.
func (t *topic) unregister(s *Space, in *instance, w *endpoint, keep bool, source int64) {
	reg := in.registration(w)
	if reg == nil {
		return
	}
	if t.Keyed && !keep && !in.disposed && (t.QoS.Ownership == qos.Shared || in.owner(domainOf(&w.QoS)) == w) {
		t.apply(s, w, &Sample{Writer: w.ID, Operation: Dispose, Key: []byte(in.key), Source: source})
	}
	in.writers = slices.DeleteFunc(in.writers, func(r registration) bool { return r.writer == w })
	for _, r := range w.matched {
		if r.cache != nil {
			r.cache.settle(s, in)
		}
	}
	s.noteLeft(t, in, w)
	if len(in.writers) == 0 {
		in.since = s.now
		t.clean(s, in)
	}
}

// leave ends the part of a writer in all instances. What a writer that is TransientLocal wrote ends
// with it.
func (t *topic) leave(s *Space, w *endpoint, keep bool) {
	for _, in := range slices.Clone(t.order) {
		t.unregister(s, in, w, keep, s.now)
		if mutant.Enabled && mutant.On(mutant.SpaceLocalStays) {
			continue
		}
		if w.closed && w.QoS.Durability == qos.TransientLocal {
			t.remove(in, func(k *kept) bool { return k.writer == w })
			t.clean(s, in)
		}
	}
	t.tidy()
}

// clean removes the history of an instance that was disposed of, has no writers and is older than
// the topic keeps those, and what is left of one of which nothing is known. The caller calls tidy
// once it has cleaned all instances: it looks at each of them.
func (t *topic) clean(s *Space, in *instance) {
	if len(in.writers) > 0 {
		return
	}
	if due := in.since + int64(t.QoS.Service.CleanupDelay); in.disposed && due <= s.now {
		t.drop(in, in.history.len())
	} else if in.disposed {
		t.due(s, due)
	}
	if in.history.len() == 0 {
		delete(t.instances, in.key)
		t.recent = nil
		in.gone, t.gone = true, true
	}
}

// tidy takes the instances that were removed out of the order.
func (t *topic) tidy() {
	if t.gone {
		t.order = slices.DeleteFunc(t.order, func(in *instance) bool { return in.gone })
		t.gone = false
	}
}

// due notes that something of the topic is due at a time.
func (t *topic) due(s *Space, at int64) {
	if mutant.Enabled && mutant.On(mutant.SpaceNoSweep) {
		return
	}
	t.sweep, s.sweep = min(t.sweep, at), min(s.sweep, at)
}

// expire removes samples from histories that have expired, and instances whose time has come.
// Nothing of either is due before sweep.
func (s *Space) expire() {
	if s.now < s.sweep {
		return
	}
	s.sweep = math.MaxInt64
	s.expireOrigins()
	for _, t := range s.topics {
		if s.now >= t.sweep {
			t.expire(s)
		}
		s.sweep = min(s.sweep, t.sweep)
	}
}

func (t *topic) expire(s *Space) {
	t.sweep = math.MaxInt64
	for _, in := range slices.Clone(t.order) {
		t.remove(in, func(k *kept) bool { return k.expires <= s.now })
		for k := range in.history.each {
			t.sweep = min(t.sweep, k.expires)
		}
		t.clean(s, in)
	}
	t.tidy()
}

// withoutWriter tells a cache that a writer is not there for its reader any more.
func (t *topic) withoutWriter(s *Space, c *Cache, w *endpoint) {
	for _, in := range t.order {
		if in.registration(w) != nil {
			c.settle(s, in)
		}
	}
}
