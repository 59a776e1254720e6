package space

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/squall-go/squall/dds/qos"
)

// model is a space as doc.go describes it, without indexes, loans, views or caches that fill: lists
// that each record looks through. It knows no origins and no clients.
type model struct {
	position uint64
	now      int64
	roster   uint64
	topics   []*modelTopic
	open     []*modelEnd
	sets     []*modelSet
	lives    map[Process]int64
}

type modelTopic struct {
	TopicInfo
	source    int64
	instances []*modelInstance
	history   []modelSample // of all instances, in the order of positions
}

type modelInstance struct {
	key      string
	disposed bool
	since    int64
	writers  []*modelPart
}

type modelPart struct {
	writer *modelEnd
	last   int64
	writes uint64
	lapsed bool
}

type modelEnd struct {
	EndpointInfo
	topic    *modelTopic
	view     uint64
	closed   bool
	asserted int64
	silent   bool
	modelReader
}

type modelSample struct {
	position        uint64
	writer          *modelEnd
	source, expires int64
	key, data       string
	dispose         bool
}

func (k modelSample) String() string {
	return fmt.Sprintf("%d %v %s=%s %v", k.position, k.writer.ID, k.key, k.data, k.dispose)
}

type modelSet struct {
	of      Process
	number  uint64
	writers []*modelEnd
	samples []Sample
}

// apply applies a record, and reports whether it has an effect.
func (m *model) apply(r Record) (ok bool) {
	m.position++
	var at int64
	for i := range 8 {
		at |= int64(r.Data[1+i]) << (8 * i)
	}
	m.now = max(m.now, at)
	m.expire()
	if IsSample(r.Data) {
		var s Sample
		return parseSample(&r, &s) == nil && m.sample(s)
	}
	body := r.Data[headBytes+callBytes:]
	do := func(err error) { ok = err == nil }
	switch r.Data[0] {
	case recordTopic:
		do(apply(body, func(t TopicInfo) error {
			m.topics = append(m.topics, &modelTopic{TopicInfo: t, source: 0})
			return nil
		}))
	case recordOpen:
		do(apply(body, func(e EndpointInfo) error { m.begin(e, r.View); return nil }))
	case recordClose:
		do(apply(body, func(id ID) error { return m.known(id, func(e *modelEnd) { m.close(e, false) }) }))
	case recordChange:
		do(apply(body, func(e EndpointInfo) error {
			return m.known(e.ID, func(of *modelEnd) { m.change(of, e.QoS) })
		}))
	case recordEnd:
		do(apply(body, m.end))
	case recordRoster:
		do(apply(body, m.members))
	case recordLapse:
		do(apply(body, m.lapse))
	case recordSilent:
		do(apply(body, m.silence))
	default:
		panic("the model does not know this record")
	}
	return ok
}

func (m *model) find(id ID) *modelEnd {
	for _, e := range m.open {
		if e.ID == id {
			return e
		}
	}
	return nil
}

func (m *model) known(id ID, do func(*modelEnd)) error {
	e := m.find(id)
	if e == nil {
		return ErrUnknown
	}
	do(e)
	return nil
}

func matches(w, r *modelEnd) bool {
	match, _ := qos.Match(&w.QoS, &r.QoS)
	return match && w.topic == r.topic && !w.Reader && r.Reader
}

func (m *model) readers(w *modelEnd) (all []*modelEnd) {
	for _, r := range m.open {
		if matches(w, r) {
			all = append(all, r)
		}
	}
	return all
}

func (m *model) begin(info EndpointInfo, view uint64) {
	e := &modelEnd{EndpointInfo: info, view: view, asserted: m.now}
	for _, t := range m.topics {
		if t.Name == info.Topic {
			e.topic = t
		}
	}
	m.open = append(m.open, e)
	if !e.Reader {
		m.lives[e.ID.Process] = m.now
		return
	}
	if e.QoS.Durability == qos.Volatile {
		return
	}
	history := slices.Clone(e.topic.history) // what has one position comes instance by instance
	slices.SortStableFunc(history, func(a, b modelSample) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(e.topic.place(a.key), e.topic.place(b.key)))
	})
	for _, k := range history {
		if k.expires > m.now && matches(k.writer, e) {
			m.receive(e, k, k.source)
		}
	}
	for _, in := range e.topic.instances {
		m.abandon(e, in)
	}
}

// abandon ends an instance of a reader, if no writer of it is left.
func (m *model) abandon(r *modelEnd, in *modelInstance) {
	v := r.instance(in.key)
	if in.written(r) || v == nil || v.state == NoWriters {
		return
	}
	if v.state == Alive {
		r.becomes(v, NoWriters, m.now, Held{Position: m.position, Source: m.now})
	}
	r.expel(v, m.now)
}

// written reports whether an instance has writers that match a reader.
func (in *modelInstance) written(r *modelEnd) bool {
	return slices.ContainsFunc(in.writers, func(p *modelPart) bool { return matches(p.writer, r) })
}

func (in *modelInstance) part(w *modelEnd) *modelPart {
	for _, p := range in.writers {
		if p.writer == w {
			return p
		}
	}
	return nil
}

// owns reports whether no writer comes before w, which is registered.
func (in *modelInstance) owns(w *modelEnd) bool {
	mine := in.part(w)
	if mine == nil || mine.lapsed {
		return false
	}
	for _, p := range in.writers {
		a, b := p.writer.QoS.Strength, w.QoS.Strength
		before := a > b || a == b && p.writer.ID.less(w.ID)
		if before && !p.lapsed && domainOf(&p.writer.QoS) == domainOf(&w.QoS) {
			return false
		}
	}
	return true
}

func (m *model) sample(s Sample) bool {
	w := m.find(s.Writer)
	if w == nil || w.Reader {
		return false
	}
	m.assert(w)
	if !w.topic.Keyed && (len(s.Key) > 0 || s.Operation == Dispose) {
		return false
	}
	s.Key, s.Data = slices.Clone(s.Key), slices.Clone(s.Data)
	if s.Set == 0 {
		m.take(w, s)
		return true
	}
	if !w.QoS.Presentation.Coherent {
		return false
	}
	for _, o := range m.sets {
		if o.of == s.Writer.Process && o.number == s.Set {
			o.writers, o.samples = append(o.writers, w), append(o.samples, s)
			return true
		}
	}
	m.sets = append(m.sets, &modelSet{s.Writer.Process, s.Set, []*modelEnd{w}, []Sample{s}})
	return true
}

// assert notes that a writer is alive, and its process, and so the others of it that say so
// together.
func (m *model) assert(w *modelEnd) {
	w.asserted, w.silent, m.lives[w.ID.Process] = m.now, false, m.now
	for _, o := range m.open {
		if o.ID.Process == w.ID.Process && o.QoS.Liveliness.Kind == qos.ManualByParticipant {
			o.silent = false
		}
	}
}

func (m *model) end(e endInfo) error {
	for i, o := range m.sets {
		if o.of != e.Process || o.number != e.Set {
			continue
		}
		m.sets = slices.Delete(m.sets, i, i+1)
		if e.Drop {
			return nil
		}
		for _, w := range o.writers {
			if w.closed {
				return ErrUnknown
			}
		}
		for j, s := range o.samples {
			m.assert(o.writers[j])
			m.take(o.writers[j], s)
		}
		return nil
	}
	return ErrUnknown
}

// take has a sample take effect.
func (m *model) take(w *modelEnd, s Sample) {
	t := w.topic
	source := min(s.Source, m.now+int64(SourceAhead))
	k := modelSample{position: m.position, writer: w, expires: math.MaxInt64, key: string(s.Key), data: string(s.Data), dispose: s.Operation == Dispose}
	if life := cmp.Or(w.QoS.Lifespan, t.QoS.Lifespan); life > 0 && !k.dispose {
		k.expires = min(source, m.now) + int64(life)
	}
	if t.QoS.Order == qos.BySource {
		source = max(source, t.source)
		t.source = source
	}
	k.source = source
	if k.dispose {
		k.data = ""
	}
	i := slices.IndexFunc(t.instances, func(in *modelInstance) bool { return in.key == k.key })
	if i < 0 && s.Operation == Unregister {
		return
	}
	if i < 0 {
		i = len(t.instances)
		t.instances = append(t.instances, &modelInstance{key: k.key})
	}
	in := t.instances[i]
	if s.Operation == Unregister {
		m.unregister(in, w, w.QoS.KeepUnregistered, source)
		return
	}
	p := in.part(w)
	if p == nil {
		p = &modelPart{writer: w}
		in.writers = append(in.writers, p)
	}
	p.last, p.lapsed = m.now, false
	p.writes++
	if s.Operation == Register || t.QoS.Ownership == qos.Exclusive && !in.owns(w) || k.expires <= m.now {
		return
	}
	in.disposed = k.dispose
	if w.QoS.Durability > qos.Volatile {
		t.history = append(t.history, k)
		m.limit(t, in)
	}
	for _, r := range m.readers(w) {
		m.receive(r, k, m.now)
	}
}

// limit drops what goes beyond the depth and the limit of a topic, of an instance that has got a
// sample.
func (m *model) limit(t *modelTopic, in *modelInstance) {
	depth := math.MaxInt
	if h := t.QoS.Service.History; !h.All {
		depth = max(h.Depth, 1)
	}
	for t.count(in.key) > min(depth, cmp.Or(t.QoS.Service.Limits.SamplesPerInstance, math.MaxInt)) {
		t.drop(slices.IndexFunc(t.history, func(k modelSample) bool { return k.key == in.key }))
	}
	for limit := t.QoS.Service.Limits.Samples; limit > 0 && len(t.history) > limit; {
		oldest := 0 // of those with one position, those of the instance that came first
		for i, k := range t.history {
			if k.position == t.history[0].position && t.place(k.key) < t.place(t.history[oldest].key) {
				oldest = i
			}
		}
		t.drop(oldest)
		m.clean(t)
	}
}

func (t *modelTopic) place(key string) int {
	return slices.IndexFunc(t.instances, func(in *modelInstance) bool { return in.key == key })
}

func (t *modelTopic) drop(i int) { t.history = slices.Delete(t.history, i, i+1) }

func (t *modelTopic) count(key string) (n int) {
	for _, k := range t.history {
		if k.key == key {
			n++
		}
	}
	return n
}

func (t *modelTopic) remove(out func(modelSample) bool) {
	t.history = slices.DeleteFunc(t.history, out)
}

// clean removes the histories of instances that are over, and instances of which nothing is left.
func (m *model) clean(t *modelTopic) {
	t.instances = slices.DeleteFunc(t.instances, func(in *modelInstance) bool {
		if len(in.writers) > 0 {
			return false
		}
		if in.disposed && in.since+int64(t.QoS.Service.CleanupDelay) <= m.now {
			t.remove(func(k modelSample) bool { return k.key == in.key })
		}
		return t.count(in.key) == 0
	})
}

func (m *model) expire() {
	for _, t := range m.topics {
		t.remove(func(k modelSample) bool { return k.expires <= m.now })
		m.clean(t)
	}
}

func (m *model) unregister(in *modelInstance, w *modelEnd, keep bool, source int64) {
	t := w.topic
	if in.part(w) == nil {
		return
	}
	if t.Keyed && !keep && !in.disposed && (t.QoS.Ownership == qos.Shared || in.owns(w)) {
		m.take(w, Sample{Operation: Dispose, Key: []byte(in.key), Source: source})
	}
	in.writers = slices.DeleteFunc(in.writers, func(p *modelPart) bool { return p.writer == w })
	for _, r := range m.readers(w) {
		m.abandon(r, in)
	}
	if len(in.writers) == 0 {
		in.since = m.now
		m.clean(t)
	}
}

func (m *model) leave(w *modelEnd, keep bool) {
	for _, in := range slices.Clone(w.topic.instances) {
		m.unregister(in, w, keep, m.now)
		if w.closed && w.QoS.Durability == qos.TransientLocal { // before the next instance: what it adds may go beyond a limit
			w.topic.remove(func(k modelSample) bool { return k.writer == w && k.key == in.key })
			m.clean(w.topic)
		}
	}
}

func (m *model) close(e *modelEnd, gone bool) {
	e.closed = true
	if !e.Reader {
		m.leave(e, gone || e.QoS.KeepUnregistered)
	}
	m.open = slices.DeleteFunc(m.open, func(o *modelEnd) bool { return o == e })
}

func (m *model) change(e *modelEnd, set qos.Set) {
	if !e.Reader && domainOf(&set) != domainOf(&e.QoS) {
		m.leave(e, true)
	}
	var left []*modelPart // registrations of writers that matched it, and do not match any more
	var of []*modelInstance
	for _, in := range e.topic.instances {
		for _, p := range in.writers {
			was := *e
			if was.QoS = set; e.Reader && matches(p.writer, e) && !matches(p.writer, &was) {
				left, of = append(left, p), append(of, in)
			}
		}
	}
	e.QoS = set
	for i := range left {
		m.abandon(e, of[i])
	}
}

func (m *model) members(roster rosterInfo) error {
	if roster.View <= m.roster {
		return nil
	}
	m.roster = roster.View
	for _, e := range slices.Clone(m.open) {
		if e.view <= roster.View && !slices.Contains(roster.Members, e.ID.Process) {
			m.close(e, true)
		}
	}
	m.sets = slices.DeleteFunc(m.sets, func(o *modelSet) bool {
		return !slices.ContainsFunc(m.open, func(e *modelEnd) bool { return e.ID.Process == o.of })
	})
	return nil
}

func (m *model) lapse(l Lapse) error {
	if w := m.find(l.Writer); w != nil && w.QoS.Deadline > 0 {
		for _, in := range w.topic.instances {
			if p := in.part(w); in.key == string(l.Key) && p != nil && p.writes == l.Writes && m.now-p.last > int64(w.QoS.Deadline) {
				p.lapsed, p.last = true, m.now
			}
		}
	}
	return nil
}

func (m *model) silence(l Silence) error {
	w := m.find(l.Writer)
	if w == nil || w.silent {
		return nil
	}
	last := w.asserted
	if w.QoS.Liveliness.Kind == qos.ManualByParticipant {
		last = m.lives[w.ID.Process]
	}
	if last == l.Asserted && m.now-last > int64(w.QoS.Liveliness.Lease) {
		w.silent = true
		m.leave(w, true)
	}
	return nil
}

// histories is what the histories of a space are to be.
func (m *model) histories() string {
	var b strings.Builder
	for _, t := range m.topics {
		fmt.Fprintln(&b, t.Name)
		for _, in := range t.instances {
			fmt.Fprintf(&b, " %s disposed: %v, %d writers\n", in.key, in.disposed, len(in.writers))
			for _, k := range t.history {
				if k.key == in.key {
					fmt.Fprintln(&b, " ", k)
				}
			}
		}
	}
	return b.String()
}

func (s *Space) histories() string {
	var b strings.Builder
	for _, t := range s.topics {
		fmt.Fprintln(&b, t.Name)
		for _, in := range t.order {
			fmt.Fprintf(&b, " %s disposed: %v, %d writers\n", in.key, in.disposed, len(in.writers))
			for k := range in.history.each {
				fmt.Fprintf(&b, "  %d %v %s=%s %v\n", k.position, k.writer.ID, in.key, k.data, k.dispose)
			}
		}
	}
	return b.String()
}
