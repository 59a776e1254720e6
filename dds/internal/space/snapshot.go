package space

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
)

// The state as it is handed to a new member: a piece with everything but the histories, and these.
// Endpoints are named by their index in state.Endpoints.

type state struct {
	Position  uint64          `cbor:"1,keyasint"`
	Now       int64           `cbor:"2,keyasint"`
	Roster    uint64          `cbor:"3,keyasint"`
	Endpoints []endpointState `cbor:"4,keyasint"`
	Topics    []topicState    `cbor:"5,keyasint"`
	Sets      []setState      `cbor:"6,keyasint"`
	Origins   []originState   `cbor:"7,keyasint,omitempty"`
	Born      int64           `cbor:"8,keyasint"`
	Views     []ViewStart     `cbor:"9,keyasint"`
}

type originState struct {
	Origin Origin `cbor:"1,keyasint"`
	Last   uint64 `cbor:"2,keyasint"`
	Since  int64  `cbor:"3,keyasint"`
	Ended  uint64 `cbor:"4,keyasint,omitempty"`
}

type endpointState struct {
	Info    EndpointInfo `cbor:"1,keyasint"`
	View    uint64       `cbor:"2,keyasint"`
	Closed  bool         `cbor:"3,keyasint"` // only samples of it are left
	Matched []int        `cbor:"4,keyasint"`
	// Of a writer: when it was asserted, and its process, and whether its lease has ended.
	Asserted int64 `cbor:"5,keyasint,omitempty"`
	Process  int64 `cbor:"6,keyasint,omitempty"`
	Silent   bool  `cbor:"7,keyasint,omitempty"`
}

type topicState struct {
	Info      TopicInfo       `cbor:"1,keyasint"`
	Source    int64           `cbor:"2,keyasint"`
	Instances []instanceState `cbor:"3,keyasint"`
	Count     uint64          `cbor:"4,keyasint"`
	Declared  uint64          `cbor:"5,keyasint"`
}

type instanceState struct {
	Key      []byte              `cbor:"1,keyasint"`
	Disposed bool                `cbor:"2,keyasint"`
	Since    int64               `cbor:"3,keyasint"`
	Writers  []registrationState `cbor:"4,keyasint"`
	Samples  uint64              `cbor:"5,keyasint"` // of its history
}

type registrationState struct {
	Writer int    `cbor:"1,keyasint"`
	Last   int64  `cbor:"2,keyasint"`
	Writes uint64 `cbor:"3,keyasint"`
	Lapsed bool   `cbor:"4,keyasint"`
}

type setState struct {
	Of      Process        `cbor:"1,keyasint"`
	Number  uint64         `cbor:"2,keyasint"`
	Broken  bool           `cbor:"3,keyasint"`
	Pending []pendingState `cbor:"4,keyasint"`
}

type pendingState struct {
	Writer int    `cbor:"1,keyasint"`
	Sample Sample `cbor:"2,keyasint"`
}

// Snapshot captures the state, without the caches of this process, and returns a function that
// writes it, on any goroutines. Two members at one position write the same bytes. Histories are not
// copied: what it costs at once does not depend on how long they are, but on how many instances
// there are.
func (s *Space) Snapshot() func(io.Writer) error {
	st := state{Position: s.position, Now: s.now, Roster: s.roster, Born: s.born, Views: s.views}
	numbers := map[*endpoint]int{}
	for _, e := range s.endpoints {
		numberOf(e, &st, numbers)
	}
	for i, e := range s.endpoints {
		for _, o := range e.matched {
			st.Endpoints[i].Matched = append(st.Endpoints[i].Matched, numbers[o])
		}
	}
	var histories []sequence[kept] // of the instances, in their order
	for _, t := range s.topics {
		ts := topicState{Info: t.TopicInfo, Source: t.source, Count: t.count, Declared: t.declared}
		for _, in := range t.order {
			is := instanceState{Key: []byte(in.key), Disposed: in.disposed, Since: in.since, Samples: uint64(in.history.len())}
			for _, r := range in.writers {
				is.Writers = append(is.Writers, registrationState{numbers[r.writer], r.last, r.writes, r.lapsed})
			}
			ts.Instances = append(ts.Instances, is)
			histories = append(histories, t.view(in))
		}
		st.Topics = append(st.Topics, ts)
	}
	for _, o := range s.sets {
		ss := setState{Of: o.of, Number: o.number, Broken: o.broken}
		for _, p := range o.pending {
			ss.Pending = append(ss.Pending, pendingState{numberOf(p.writer, &st, numbers), p.sample})
		}
		st.Sets = append(st.Sets, ss)
	}
	for _, at := range s.origins {
		st.Origins = append(st.Origins, originState{at.Origin, at.last, at.since, at.ended})
	}
	return func(w io.Writer) error { return st.write(w, histories, numbers) }
}

// numberOf is the number of an endpoint in a state. One that is not known was closed before, and
// stays as it is.
func numberOf(e *endpoint, st *state, numbers map[*endpoint]int) int {
	n, ok := numbers[e]
	if !ok {
		n = len(st.Endpoints)
		numbers[e] = n
		es := endpointState{Info: e.EndpointInfo, View: e.view, Closed: e.closed}
		if !e.Reader && !e.closed {
			es.Asserted, es.Process, es.Silent = e.asserted, e.life.asserted, e.silent
		}
		st.Endpoints = append(st.Endpoints, es)
	}
	return n
}

// write writes a state and its histories. It changes neither.
func (st state) write(w io.Writer, histories []sequence[kept], numbers map[*endpoint]int) error {
	st.Endpoints, numbers = slices.Clone(st.Endpoints), maps.Clone(numbers)
	var writer *endpoint // of the sample before
	number := 0
	of := func(k *kept) int {
		if k.writer != writer {
			writer, number = k.writer, numberOf(k.writer, &st, numbers)
		}
		return number
	}
	for i := range histories { // writers that were closed have their numbers, too
		for k := range histories[i].each {
			of(k)
		}
	}
	b, err := encoding.Marshal(&st)
	if err == nil {
		err = writePiece(w, b)
	}
	h := historyWriter{w: w}
	for i := range histories {
		for k := range histories[i].each {
			if err == nil {
				err = h.add(k, of(k))
			}
		}
	}
	if err == nil {
		err = h.flush()
	}
	return err
}

// Replace replaces the state of a space, in which nothing was opened, by one that was read. The
// readers of this process that are about to be opened, and the tail, stay.
func (s *Space) Replace(by *Space) {
	was := s.tail
	by.Told, by.unit, by.step, by.expected, by.followed = s.Told, s.unit, s.step, s.expected, s.followed
	*s = *by
	if was != nil {
		s.KeepTail(was.limit)
	}
}

func (s *Space) loadTopics(st *state) {
	for _, ts := range st.Topics {
		t := &topic{TopicInfo: ts.Info, source: ts.Source, count: ts.Count, declared: ts.Declared, floor: floor{ts.Count, st.Position}, instances: map[string]*instance{}}
		s.topics, s.byName[t.Name] = append(s.topics, t), t
	}
	for _, o := range st.Origins {
		at := &origin{Origin: o.Origin, last: o.Last, since: o.Since, ended: o.Ended}
		if s.byOrigin == nil {
			s.byOrigin = map[Origin]*origin{}
		}
		s.origins, s.byOrigin[at.Origin] = append(s.origins, at), at
	}
}

func (l *loading) loadSets(st *state) {
	for _, ss := range st.Sets {
		o := &set{of: ss.Of, number: ss.Number, broken: ss.Broken}
		for _, p := range ss.Pending {
			o.pending = append(o.pending, pending{l.at(p.Writer), p.Sample})
		}
		l.sets = append(l.sets, o)
	}
}

// ReadState reads what the function that Snapshot returned has written, to the end.
func ReadState(r io.Reader) (*Space, error) {
	in := bufio.NewReaderSize(r, pieceBytes)
	b, err := readPiece(in)
	if err != nil {
		return nil, cut(err)
	}
	var st state
	if err := decodingState.Unmarshal(b, &st); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	s := &Space{position: st.Position, now: st.Now, roster: st.Roster, born: st.Born, views: st.Views, byName: map[string]*topic{}, byID: map[ID]*endpoint{}}
	s.loadTopics(&st)
	l := loading{Space: s, all: make([]*endpoint, len(st.Endpoints))}
	if err := l.endpoints(&st); err != nil {
		return nil, err
	}
	samples := historyReader{r: in, at: l.at}
	if err := l.instances(&st, &samples); err != nil {
		return nil, err
	}
	l.loadSets(&st)
	if err := samples.end(); err != nil {
		return nil, err
	}
	if l.bad {
		return nil, fmt.Errorf("%w: a number of an endpoint", ErrMalformed)
	}
	for _, r := range rules[:ofStates] {
		if what := r.broken(s); what != "" {
			return nil, fmt.Errorf("%w: a state that breaks %s: %s", ErrMalformed, r.id, what)
		}
	}
	s.expire() // nothing is due; it finds out when something will be
	return s, nil
}

// loading is a space that is being read.
type loading struct {
	*Space
	all []*endpoint // by their numbers in the state
	bad bool        // a number was none of them
}

// at returns the endpoint with a number.
func (l *loading) at(n int) *endpoint {
	if n < 0 || n >= len(l.all) {
		l.bad = true
		return &endpoint{}
	}
	return l.all[n]
}

// endpoints reads the endpoints and their matches. The topics and origins are there.
func (l *loading) endpoints(st *state) error {
	for i, es := range st.Endpoints {
		e := &endpoint{EndpointInfo: es.Info, view: es.View, closed: es.Closed, topic: l.byName[es.Info.Topic]}
		l.all[i] = e
		switch {
		case e.topic == nil:
			return fmt.Errorf("%w: an endpoint of topic %q, which is not there", ErrMalformed, es.Info.Topic)
		case e.closed:
			continue
		case e.Origin != nil && l.originOf(*e.Origin) == nil:
			return fmt.Errorf("%w: a writer of an origin that is not there", ErrMalformed)
		case e.Reader:
			e.topic.readers = append(e.topic.readers, e)
		default:
			e.topic.writers = append(e.topic.writers, e)
		}
		if e.Origin != nil {
			at := l.originOf(*e.Origin)
			at.writers, at.current = at.writers+1, e // the last one that was opened
		}
		l.Space.endpoints, l.byID[e.ID] = append(l.Space.endpoints, e), e
		if !e.Reader {
			l.live(e)
			e.asserted, e.life.asserted = es.Asserted, es.Process
			if e.silent = es.Silent; e.silent {
				l.silences++
			}
		}
	}
	for i, es := range st.Endpoints {
		for _, n := range es.Matched {
			l.all[i].matched = append(l.all[i].matched, l.at(n))
		}
	}
	return nil
}

// instances reads the instances and their histories.
func (l *loading) instances(st *state, samples *historyReader) error {
	for i, ts := range st.Topics {
		t := l.topics[i]
		for _, is := range ts.Instances {
			in := &instance{key: string(is.Key), disposed: is.Disposed, since: is.Since}
			for _, r := range is.Writers {
				in.writers = append(in.writers, registration{l.at(r.Writer), r.Last, r.Writes, r.Lapsed})
			}
			for range is.Samples {
				k, err := samples.next()
				if err != nil {
					return err
				}
				in.remember(k)
			}
			t.kept += in.history.len()
			t.instances[in.key], t.order = in, append(t.order, in)
		}
	}
	return nil
}

// Topics returns the topics, in the order in which they were declared.
func (s *Space) Topics() []TopicInfo {
	all := make([]TopicInfo, len(s.topics))
	for i, t := range s.topics {
		all[i] = t.TopicInfo
	}
	return all
}

// Endpoints returns the writers and readers, in the order in which they were opened.
func (s *Space) Endpoints() []EndpointInfo {
	all := make([]EndpointInfo, len(s.endpoints))
	for i, e := range s.endpoints {
		all[i] = e.EndpointInfo
	}
	return all
}

// Endpoint returns a writer or a reader, and the ids of the endpoints that it matches.
func (s *Space) Endpoint(id ID) (info EndpointInfo, matched []ID, ok bool) {
	e := s.byID[id]
	if e == nil {
		return info, nil, false
	}
	for _, o := range e.matched {
		matched = append(matched, o.ID)
	}
	return e.EndpointInfo, matched, true
}

// Matches returns how many endpoints a writer or a reader matches.
func (s *Space) Matches(id ID) (n int, ok bool) {
	e := s.byID[id]
	if e == nil {
		return 0, false
	}
	return len(e.matched), true
}

// Topic returns the declaration of a topic.
func (s *Space) Topic(name string) (info TopicInfo, ok bool) {
	t := s.byName[name]
	if t == nil {
		return info, false
	}
	return t.TopicInfo, true
}
