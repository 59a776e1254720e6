package space

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
)

// Space is the state at one member. The zero value is that of a space that begins.
type Space struct {
	// Told is called with what happens, in order, within Apply. It must not call the space.
	Told func(Event)

	position  uint64      // records applied
	now       int64       // the largest time of a record
	follows   bool        // this is a space at a client: now is the client's time
	roster    uint64      // view of the last roster
	born      int64       // time of the first record: spaces that began at different times have different ones
	views     []ViewStart // the last ones; only appended to, or replaced
	topics    []*topic
	byName    map[string]*topic
	endpoints []*endpoint // in the order in which they were opened
	byID      map[ID]*endpoint
	sets      []*set // open ones, in the order of their beginnings
	sweep     int64  // no history has anything that is due before
	expected  map[ID]*Cache
	origins   []*origin // in the order in which they came
	byOrigin  map[Origin]*origin
	recent    *endpoint      // of the last sample; nil: unknown
	memory    chunks         // of data of samples that readers take soon
	parsed    Sample         // of the record that is being applied
	lazy      bool           // the data of the record are valid until Settle
	stays     bool           // … until Repay
	unsettled []loan         // until Settle
	loans     sequence[loan] // until Repay, in the order of their positions
	lent      *loan          // the last one of loans, while it may grow
	unit      int            // bytes as which a record counts at least in an account
	step      int            // bytes of a step of an account; 0: nothing is lent until Repay
	senders   []account
	turn      int      // the account of the last record
	due, soon uint64   // up to there, data have to be repaid, and will have to be soon
	passing   instance // has the key of the last sample without an order
	tail      *tail    // of a process with clients; nil: none
	followed  map[ID]*Followed
	lives     map[party]*life
	leased    int // writers that have to be asserted
	silences  int // … whose leases have ended
	piece     int // in place of fillPiece, in tests
	unchecked int // steps since the invariants were checked, in builds that check them
}

// endpoint is a writer or a reader.
type endpoint struct {
	EndpointInfo
	topic  *topic
	view   uint64 // of the record that opened it
	closed bool   // a sample of a history may outlive its writer
	cache  *Cache // of a reader of this process
	// matched are the endpoints on the other side, in the order of matching.
	matched []*endpoint
	// Of a writer, what follows from matched: the caches of readers of this process, whether one of
	// them may be full, and whether all of them hold what they have until it is taken.
	local   []*Cache
	bounded bool
	queues  bool
	holds   bool // a cache keeps what it gets
	// Of a reader at a client, the writers of what it got last.
	strangers []*endpoint
	offered   *qos.Set // a copy of the policies of a writer, which stays as it is; nil: nothing has asked for it
	changes   uint64   // of the policies
	// Of a writer: when it was asserted, and its process, and whether its lease has ended.
	asserted int64
	life     *life
	silent   bool
}

// settle computes what follows from matched. It is called whenever matched or the cache of a
// matched reader changes.
func (w *endpoint) settle() {
	w.local, w.bounded, w.queues, w.holds = w.local[:0], false, true, false
	for _, r := range w.matched {
		if r.cache == nil {
			continue
		}
		w.local = append(w.local, r.cache)
		w.bounded = w.bounded || r.cache.filling != nil || r.cache.limited()
		w.queues = w.queues && r.QoS.History.All
		w.holds = w.holds || r.cache.Listener == nil || r.cache.filling != nil
	}
}

// settleWriters is settle for the writers that match a reader.
func (r *endpoint) settleWriters() {
	for _, w := range r.matched {
		w.settle()
	}
}

// writer finds the writer of a sample: mostly the writer of the sample before.
func (s *Space) writer(id ID) *endpoint {
	if s.recent == nil || s.recent.ID != id {
		s.recent = s.byID[id]
	}
	return s.recent
}

// set is a coherent set that has not ended.
type set struct {
	of      Process
	number  uint64
	broken  bool // a writer of it was closed; it has no samples any more
	pending []pending
}

// pending is a sample of a set. The key and the data are copies. The writer is that of the process
// that sent the sample, also if another one stands for its origin.
type pending struct {
	writer *endpoint
	sample Sample
}

// Position is the number of records that were applied: equal positions have equal states.
func (s *Space) Position() uint64 { return s.position }

// Now is the time of the order.
func (s *Space) Now() int64 { return s.now }

// Roster is the view of the last roster.
func (s *Space) Roster() uint64 { return s.roster }

// Apply applies one record. An error says why it has no effect, at all members alike; it is for the
// caller that sent it.
func (s *Space) Apply(r Record) error {
	_, err := s.apply(&r, false)
	if invariants.Enabled {
		s.check()
	}
	return err
}

// TryApply is Apply, unless the record goes beyond the limits of a RELIABLE reader of this process:
// then it does nothing and returns false. Its caller waits until samples were taken. The data of
// the record must stay as they are until the next call of Settle: of the samples that come at once,
// a history with a small depth drops most without a copy. If the data stay longer, until Repay,
// histories whose samples are replaced within the limits of Lend have no copies at all.
func (s *Space) TryApply(r *Record) (bool, error) {
	applied, err := s.apply(r, true)
	if invariants.Enabled {
		s.check()
	}
	return applied, err
}

// apply applies a record: with try, within the limits of readers, and the data of the record are
// valid until Settle.
func (s *Space) apply(r *Record, try bool) (bool, error) {
	s.lazy, s.stays = try, r.Stays && s.step > 0
	if !IsSample(r.Data) {
		if err := s.advance(r); err != nil {
			return true, err
		}
		return true, s.control(r)
	}
	sample := &s.parsed
	wrong := parseSample(r, sample)
	var w *endpoint
	if wrong == nil {
		w = s.writer(sample.Writer)
	}
	if try && w != nil && w.bounded && w.full(sample) {
		return false, nil
	}
	if err := s.advance(r); err != nil {
		return true, err
	}
	if wrong != nil {
		return true, wrong
	}
	return true, s.sample(w, sample)
}

// advance goes on to the position and the time of a record.
func (s *Space) advance(r *Record) error {
	s.position++
	s.lay(r)
	if len(r.Data) < headBytes {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, len(r.Data))
	}
	s.now = max(s.now, int64(binary.LittleEndian.Uint64(r.Data[1:])))
	if s.born == 0 {
		s.born = s.now
	}
	s.enter(r.View)
	s.expire()
	return nil
}

func (s *Space) control(r *Record) error {
	if len(r.Data) < headBytes+callBytes {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, len(r.Data))
	}
	body := r.Data[headBytes+callBytes:]
	switch r.Data[0] {
	case recordTopic:
		return apply(body, s.declare)
	case recordForget:
		return apply(body, s.forget)
	case recordOpen:
		return apply(body, func(e EndpointInfo) error { return s.open(r, e) })
	case recordChange:
		return apply(body, func(e EndpointInfo) error { return s.change(r, e) })
	case recordClose:
		return apply(body, func(id ID) error { return s.end(r, id, false) })
	case recordOrigin:
		return apply(body, func(id ID) error { return s.endOrigin(r, id) })
	case recordGone:
		return apply(body, func(id ID) error { return s.end(r, id, true) })
	case recordAssert:
		return apply(body, func(id ID) error {
			if id.Node != r.Sender {
				return fmt.Errorf("%w: an assertion of another process", ErrMalformed)
			}
			return s.asserted(id)
		})
	case recordClient:
		return apply(body, func(client []byte) error { return s.assertedParty(party{client: string(client)}) })
	case recordSilent:
		return apply(body, s.silence)
	case recordEnd:
		return apply(body, func(e endInfo) error {
			if e.Process.Node != r.Sender {
				return fmt.Errorf("%w: a set of another process", ErrMalformed)
			}
			return s.endSet(e)
		})
	case recordRoster:
		return apply(body, s.members)
	case recordLapse:
		return apply(body, s.lapse)
	}
	return fmt.Errorf("%w: kind %d", ErrMalformed, r.Data[0])
}

// end closes an endpoint of the sender of a record.
func (s *Space) end(r *Record, id ID, gone bool) error {
	e := s.byID[id]
	if e == nil || id.Node != r.Sender {
		return fmt.Errorf("%w: %v", ErrUnknown, id)
	}
	s.close(e, gone)
	return nil
}

// endOrigin closes a writer, and notes that its origin has ended.
func (s *Space) endOrigin(r *Record, id ID) error {
	if e := s.byID[id]; e != nil && id.Node == r.Sender {
		if e.Origin == nil {
			return fmt.Errorf("%w: the end of the origin of %v, which has none", ErrMalformed, id)
		}
		at := s.originOf(*e.Origin)
		defer func() { at.last, at.ended = 0, s.position }()
	}
	return s.end(r, id, false)
}

func apply[T any](body []byte, do func(T) error) error {
	var what T
	if err := decoding.Unmarshal(body, &what); err != nil {
		return fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return do(what)
}

func (s *Space) tell(e Event) {
	if s.Told != nil {
		e.Position = s.position
		s.Told(e)
	}
}

func (s *Space) declare(info TopicInfo) error {
	if t := s.byName[info.Name]; t != nil {
		if !t.same(info) {
			return fmt.Errorf("%w: %q is a topic of %s", ErrInconsistentTopic, info.Name, t.Type)
		}
		return nil
	}
	if err := info.QoS.Validate(qos.Topic); err != nil {
		return err
	}
	t := &topic{TopicInfo: info, declared: s.position, instances: map[string]*instance{}}
	if s.byName == nil {
		s.byName, s.byID = map[string]*topic{}, map[ID]*endpoint{}
	}
	s.topics, s.byName[info.Name] = append(s.topics, t), t
	return nil
}

func (s *Space) forget(name string) error {
	t := s.byName[name]
	switch {
	case t == nil:
		return fmt.Errorf("%w: topic %q", ErrUnknown, name)
	case len(t.writers)+len(t.readers) > 0:
		return fmt.Errorf("%w: topic %q has %d writers and %d readers", ErrInUse, name, len(t.writers), len(t.readers))
	}
	delete(s.byName, name)
	s.topics = slices.DeleteFunc(s.topics, func(o *topic) bool { return o == t })
	return nil
}

func (s *Space) open(r *Record, info EndpointInfo) error {
	t := s.byName[info.Topic]
	kind := qos.Writer
	if info.Reader {
		kind = qos.Reader
	}
	switch {
	case info.ID.Node != r.Sender:
		return fmt.Errorf("%w: an endpoint of another member", ErrMalformed)
	case t == nil:
		return fmt.Errorf("%w: topic %q", ErrUnknown, info.Topic)
	case s.byID[info.ID] != nil:
		return fmt.Errorf("%w: %v", ErrInUse, info.ID)
	case info.Reader && info.Origin != nil:
		return fmt.Errorf("%w: a reader with an origin", ErrMalformed)
	}
	if err := info.QoS.Validate(kind); err != nil {
		return err
	}
	if info.QoS.Ownership != t.QoS.Ownership {
		return fmt.Errorf("%w: the topic is %v, the %v is %v", ErrInconsistentTopic, t.QoS.Ownership, kind, info.QoS.Ownership)
	}
	if !info.Reader && info.QoS.Durability > t.QoS.Durability {
		return fmt.Errorf("%w: the topic is %v, the writer is %v", ErrInconsistentTopic, t.QoS.Durability, info.QoS.Durability)
	}
	e := &endpoint{EndpointInfo: info, topic: t, view: r.View}
	s.endpoints, s.byID[info.ID] = append(s.endpoints, e), e
	if info.Reader {
		t.readers = append(t.readers, e)
	} else {
		t.writers = append(t.writers, e)
	}
	s.live(e)
	if e.Origin != nil {
		s.stand(e)
	}
	s.tell(Event{Kind: Opened, Endpoint: e.ID})
	s.matchAll(e)
	if c := s.expected[e.ID]; c != nil {
		delete(s.expected, e.ID)
		e.cache, c.of = c, e
		e.settleWriters()
		c.begin(s)
	}
	if f := s.followed[e.ID]; f != nil {
		delete(s.followed, e.ID)
		f.begin(s, e)
	}
	return nil
}

// matchAll matches an endpoint with the endpoints of the other side, and tells which policies
// forbid it.
func (s *Space) matchAll(e *endpoint) {
	others := e.topic.readers
	if e.Reader {
		others = e.topic.writers
	}
	for _, o := range others {
		w, r := e, o
		if e.Reader {
			w, r = o, e
		}
		matched, incompatible := qos.Match(&w.QoS, &r.QoS)
		was := slices.Contains(w.matched, r)
		switch {
		case matched && !was:
			w.matched, r.matched = append(w.matched, r), append(r.matched, w)
			w.settle()
			s.tell(Event{Kind: Matched, Endpoint: w.ID, Peer: r.ID, Current: len(w.matched)})
			s.tell(Event{Kind: Matched, Endpoint: r.ID, Peer: w.ID, Current: len(r.matched)})
		case !matched && was:
			s.unmatch(w, r)
		case !matched && len(incompatible) > 0:
			s.tell(Event{Kind: Incompatible, Endpoint: w.ID, Peer: r.ID, Policies: incompatible})
			s.tell(Event{Kind: Incompatible, Endpoint: r.ID, Peer: w.ID, Policies: incompatible})
		}
	}
}

func (s *Space) unmatch(w, r *endpoint) {
	w.matched = slices.DeleteFunc(w.matched, func(o *endpoint) bool { return o == r })
	r.matched = slices.DeleteFunc(r.matched, func(o *endpoint) bool { return o == w })
	w.settle()
	s.tell(Event{Kind: Unmatched, Endpoint: w.ID, Peer: r.ID, Current: len(w.matched)})
	s.tell(Event{Kind: Unmatched, Endpoint: r.ID, Peer: w.ID, Current: len(r.matched)})
	if r.cache != nil {
		w.topic.withoutWriter(s, r.cache, w)
	}
}

// changeable clears what may differ between a set and the one that replaces it.
func changeable(set qos.Set) qos.Set {
	set.UserData, set.GroupData, set.Partitions = nil, nil, nil
	set.Deadline, set.LatencyBudget, set.Lifespan, set.Separation, set.Strength = 0, 0, 0, 0, 0
	set.Reliability.MaxBlocking, set.Purge, set.KeepUnregistered = 0, qos.ReaderLifetime{}, false
	return set
}

func (s *Space) change(r *Record, info EndpointInfo) error {
	e := s.byID[info.ID]
	if e == nil || info.ID.Node != r.Sender {
		return fmt.Errorf("%w: %v", ErrUnknown, info.ID)
	}
	kind := qos.Writer
	if e.Reader {
		kind = qos.Reader
	}
	if err := info.QoS.Validate(kind); err != nil {
		return err
	}
	was, is := mustEncode(changeable(e.QoS)), mustEncode(changeable(info.QoS))
	if !slices.Equal(was, is) {
		return fmt.Errorf("%w: only data of applications, partitions, deadline, latency budget, lifespan, time-based filter, strength and life cycles change", ErrImmutable)
	}
	domain := domainOf(&info.QoS)
	if !e.Reader && domain != domainOf(&e.QoS) { // what it owned it owns no more
		e.topic.leave(s, e, true)
	}
	regrouped := !e.Reader && !slices.Equal(e.QoS.Partitions, info.QoS.Partitions)
	e.QoS, e.offered = info.QoS, nil
	e.changes++
	s.matchAll(e)
	if regrouped {
		s.regrouped(e)
	}
	return nil
}

func mustEncode(set qos.Set) []byte {
	b, err := encoding.Marshal(set)
	if err != nil {
		panic(fmt.Sprintf("dds: a set of policies cannot be encoded: %v", err))
	}
	return b
}

// close ends an endpoint; gone is true if its process has ended.
func (s *Space) close(e *endpoint, gone bool) {
	e.closed = true
	if e.Origin != nil {
		s.unstand(e)
	}
	if e.cache != nil {
		e.cache.ready()
	}
	if !e.Reader {
		for _, open := range s.sets {
			if slices.ContainsFunc(open.pending, func(p pending) bool { return p.writer == e }) && !(mutant.Enabled && mutant.On(mutant.SpaceBrokenSet)) {
				open.broken, open.pending = true, nil
			}
		}
		e.topic.leave(s, e, gone || e.QoS.KeepUnregistered)
	}
	for len(e.matched) > 0 {
		if e.Reader {
			s.unmatch(e.matched[0], e)
		} else {
			s.unmatch(e, e.matched[0])
		}
	}
	same := func(o *endpoint) bool { return o == e }
	s.endpoints = slices.DeleteFunc(s.endpoints, same)
	e.topic.writers = slices.DeleteFunc(e.topic.writers, same)
	e.topic.readers = slices.DeleteFunc(e.topic.readers, same)
	delete(s.byID, e.ID)
	s.unlive(e)
	s.recent = nil
	s.tell(Event{Kind: Closed, Endpoint: e.ID, Gone: gone})
}

// members ends what the processes left that are not members of a view. An endpoint that was opened
// in a later view than the roster is of may belong to a member that the roster does not know yet.
func (s *Space) members(roster rosterInfo) error {
	if roster.View <= s.roster {
		return nil
	}
	s.roster = roster.View
	for _, e := range slices.Clone(s.endpoints) {
		if mutant.Enabled && mutant.On(mutant.SpaceEndedStays) {
			continue
		}
		if e.view <= roster.View && !slices.Contains(roster.Members, e.ID.Process) {
			s.close(e, true)
		}
	}
	if mutant.Enabled && mutant.On(mutant.SpaceSetOfTheEnd) {
		return nil
	}
	s.sets = slices.DeleteFunc(s.sets, func(o *set) bool { return !s.alive(o.of) })
	return nil
}

// alive reports whether a process has an endpoint.
func (s *Space) alive(p Process) bool {
	return slices.ContainsFunc(s.endpoints, func(e *endpoint) bool { return e.ID.Process == p })
}

func (s *Space) lapse(l Lapse) error {
	e := s.byID[l.Writer]
	if e == nil || e.Reader {
		return nil
	}
	in := e.topic.instances[string(l.Key)]
	if in == nil {
		return nil
	}
	// A member that has not applied its own record yet may have sent another one.
	if reg := in.registration(e); reg != nil && reg.writes == l.Writes && e.QoS.Deadline > 0 && s.now-reg.last > int64(e.QoS.Deadline) {
		reg.lapsed, reg.last = true, s.now
		s.tell(Event{Kind: DeadlineMissed, Endpoint: e.ID, Key: string(l.Key)})
		for _, r := range e.matched {
			s.tell(Event{Kind: DeadlineMissed, Endpoint: r.ID, Peer: e.ID, Key: string(l.Key)})
		}
	}
	return nil
}

// Lapses returns the deadlines that were missed at a time, for records.
func (s *Space) Lapses(now int64) (missed []Lapse) {
	for _, e := range s.endpoints {
		if e.Reader || e.QoS.Deadline == 0 {
			continue
		}
		for _, in := range e.topic.order {
			if reg := in.registration(e); reg != nil && now-reg.last > int64(e.QoS.Deadline) {
				missed = append(missed, Lapse{e.ID, []byte(in.key), reg.writes})
			}
		}
	}
	return missed
}

// sample takes a sample of a writer, which is nil if it is not known, into its set, or applies it.
func (s *Space) sample(by *endpoint, sample *Sample) error {
	w := by
	if w != nil && w.Origin != nil {
		w = s.standing(w)
	}
	if s.leased > 0 && w != nil && !w.Reader {
		s.assert(w)
	}
	switch {
	case w == nil || w.Reader:
		return fmt.Errorf("%w: writer %v", ErrUnknown, sample.Writer)
	case !w.topic.Keyed && (len(sample.Key) > 0 || sample.Operation == Dispose):
		return fmt.Errorf("%w: topic %q has no keys", ErrMalformed, w.Topic)
	case (sample.Sequence == 0) != (w.Origin == nil):
		return fmt.Errorf("%w: a sample of writer %v with the number %d of an origin", ErrMalformed, w.ID, sample.Sequence)
	case sample.Set == 0 || mutant.Enabled && mutant.On(mutant.SpaceSetAtOnce):
		if w.Origin != nil {
			if err := s.once(w, sample.Sequence); err != nil {
				return err
			}
		}
		w.topic.apply(s, w, sample)
		return nil
	case !w.QoS.Presentation.Coherent:
		return fmt.Errorf("%w: the writer offers no coherent access", ErrImmutable)
	}
	if o := s.setOf(sample); !o.broken { // else it will have no effect
		sample.Key, sample.Data = slices.Clone(sample.Key), slices.Clone(sample.Data)
		o.pending = append(o.pending, pending{by, *sample})
	}
	return nil
}

// setOf returns the coherent set of a sample, which begins with its first one.
func (s *Space) setOf(sample *Sample) *set {
	i := slices.IndexFunc(s.sets, func(o *set) bool { return o.of == sample.Writer.Process && o.number == sample.Set })
	if i < 0 {
		i = len(s.sets)
		s.sets = append(s.sets, &set{of: sample.Writer.Process, number: sample.Set})
	}
	return s.sets[i]
}

// Pass gives a sample without an order to the readers of this process: nothing of the space
// changes. A sample of a writer that is not known (yet, or any more) is lost.
func (s *Space) Pass(r Record) {
	if !IsSample(r.Data) {
		return
	}
	sample := &s.parsed
	if err := parseSample(&r, sample); err != nil || sample.Operation != Write || sample.Set != 0 || sample.Sequence != 0 {
		return
	}
	w := s.writer(sample.Writer)
	if w == nil || w.Reader || !Loose(&w.QoS) || !w.topic.Keyed && len(sample.Key) > 0 {
		return
	}
	k := kept{writer: w, source: sample.Source, expires: expiry(w.topic, w, sample.Source), data: sample.Data, borrowed: true}
	if k.expires <= s.now {
		return
	}
	in := &s.passing
	if in.key != string(sample.Key) {
		in.key = string(sample.Key)
	}
	for _, c := range w.local {
		c.accept(s, in, &k)
	}
	if s.tail != nil {
		s.note(step{topic: w.topic, kind: FedSample, loose: true, key: in.key, writer: w, source: k.source, expires: k.expires, data: s.copyForTail(k.data)})
	}
}

// Loose reports whether the samples of a writer with these policies need no order.
func Loose(set *qos.Set) bool {
	return set.Reliability.Kind == qos.BestEffort && set.Durability == qos.Volatile && set.Ownership == qos.Shared && !set.Presentation.Coherent &&
		set.Order == qos.ByReception && set.Deadline == 0 && set.Liveliness.Kind == qos.Automatic
}

// endSet applies a whole set at one position. Samples of an origin that another process has brought
// into the order, with that set or another one, have no effect: all of the set have been, because
// each process sends what it sends of an origin in the order of its numbers, and a set at its place
// in it.
func (s *Space) endSet(e endInfo) error {
	i := slices.IndexFunc(s.sets, func(o *set) bool { return o.of == e.Process && o.number == e.Set })
	if i < 0 {
		return fmt.Errorf("%w: set %d", ErrUnknown, e.Set)
	}
	o := s.sets[i]
	s.sets = slices.Delete(s.sets, i, i+1)
	switch {
	case e.Drop:
		return nil
	case o.broken:
		return fmt.Errorf("%w: a writer of set %d was closed within it", ErrUnknown, e.Set)
	}
	for j := range o.pending {
		p := &o.pending[j]
		w := p.writer
		if w.Origin != nil {
			w = s.standing(w)
		}
		if s.leased > 0 && (!mutant.Enabled || !mutant.On(mutant.SpaceSilentSet)) { // its lease may have ended within the set
			s.assert(w)
		}
		if w.Origin == nil || s.once(w, p.sample.Sequence) == nil {
			w.topic.apply(s, w, &p.sample)
		}
	}
	return nil
}
