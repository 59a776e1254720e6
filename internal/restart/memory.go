package restart

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// Disk keeps a few values. Put is one transaction: all of it is durable when it returns nil,
// whatever happens then, and nothing or all of it if it did not return. A nil value deletes.
type Disk interface {
	Get(key string) ([]byte, error) // nil: there is none
	Put(values map[string][]byte) error
}

var (
	// ErrDamaged says that what is kept of the group's views cannot be read. It is a
	// persist.ErrDamaged.
	ErrDamaged error = damage{}
	// ErrNewerFormat says that a newer version of this program wrote it.
	ErrNewerFormat = persist.ErrNewerFormat
	// ErrOtherNode says that a disk belongs to another node.
	ErrOtherNode = persist.ErrOtherNode
	// ErrOtherHistory says that a view does not fit what the disk knows: it is of another group,
	// older, or another one with the same number.
	ErrOtherHistory = views.ErrOtherHistory
	// ErrPromised says that a view cannot be entered any more, because this process takes part in
	// replacing it.
	ErrPromised = errors.New("a restart from this view has begun")
)

// damage has a text of its own: it is not a log that is damaged.
type damage struct{}

func (damage) Error() string        { return "the memory of the group's views is damaged" }
func (damage) Is(target error) bool { return target == persist.ErrDamaged }

// Keys on the disk. Each value is a header and JSON:
//
//	┌─ "SQV", format: 4 bytes ─┐┌─ crc32c of the JSON, u32 ─┐┌──────── JSON ────────┐
const (
	keyNode = "restart/node"   // node and incarnations
	keyView = "restart/view"   // the last view in force
	keyVote = "restart/vote"   // echo, promise, vote about what follows it
	keyLogs = "restart/logs"   // what is incomplete
	keyRoot = "restart/group"  // the secret of the view's group
	keyPast = "restart/former" // former members
)

const (
	valueMagic       = "SQV"
	valueFormat      = 2 // 1: no view has the identity of its group
	valueHeaderBytes = len(valueMagic) + 1 + 4
)

// The parts of a State as they are kept. Vote and logs say which view they are about: they were
// written with it, or later.
type (
	nodePart struct {
		Node         order.NodeID `json:"node"`
		Incarnations []uint64     `json:"incarnations,omitempty"`
		Disk         uint64       `json:"disk,omitempty"`
		GaveUp       string       `json:"gave_up,omitempty"`
	}
	votePart struct {
		View     order.ViewID `json:"view"`
		Echo     *Echo        `json:"echo,omitempty"`
		Promised Ballot       `json:"promised"`
		Accepted *Accepted    `json:"accepted,omitempty"`
	}
	groupPart struct {
		Group  string `json:"group,omitempty"` // that of the view
		Secret string `json:"secret,omitempty"`
		Before string `json:"before,omitempty"`
	}
	// keyedVote is a votePart as it is written.
	keyedVote struct {
		View     order.ViewID   `json:"view"`
		Echo     *keyedEcho     `json:"echo,omitempty"`
		Promised Ballot         `json:"promised"`
		Accepted *keyedAccepted `json:"accepted,omitempty"`
	}
	pastPart struct {
		Former []Former `json:"former,omitempty"`
	}
	logsPart struct {
		View       order.ViewID    `json:"view"`
		Incomplete []IncompleteLog `json:"incomplete,omitempty"`
	}
)

// Memory is a process's State on its disk. Its methods may be called from any goroutine; methods
// that change it return when the change is durable. After an error nothing is known of the disk,
// and the process must stop.
type Memory struct {
	disk Disk

	mu    sync.Mutex
	state State
	kept  map[string][]byte // by key: what is on the disk
}

// Load reads what this process knows.
func Load(disk Disk) (*Memory, error) {
	m := &Memory{disk: disk, kept: map[string][]byte{}}
	var node nodePart
	var vote votePart
	var logs logsPart
	var group groupPart
	var past pastPart
	for _, part := range []struct {
		key  string
		into any
	}{{keyNode, &node}, {keyView, &m.state.Successor}, {keyVote, &vote}, {keyLogs, &logs}, {keyRoot, &group}, {keyPast, &past}} {
		if err := m.read(part.key, part.into); err != nil {
			return nil, err
		}
	}
	s := &m.state
	s.Node, s.Incarnations, s.Disk, s.GaveUp = node.Node, node.Incarnations, node.Disk, node.GaveUp
	s.Echo, s.Promised, s.Accepted, s.Incomplete = vote.Echo, vote.Promised, vote.Accepted, logs.Incomplete
	if mutant.Enabled && mutant.On(mutant.VoteForgotten) {
		s.Accepted = nil
	}
	s.Secret, s.Before, s.Former = views.NewSecret(group.Secret), group.Before, past.Former
	if err := s.checkGroup(group); err != nil {
		return nil, damaged(keyRoot, err)
	}
	if err := s.check(vote.View, logs.View); err != nil {
		return nil, damaged("restart", err)
	}
	return m, nil
}

// read reads a value, if it is there.
func (m *Memory) read(key string, into any) error {
	value, err := m.disk.Get(key)
	if err != nil {
		return fmt.Errorf("restart: %s: %w", key, err)
	}
	if value == nil {
		return nil
	}
	m.kept[key] = slices.Clone(value)
	if err := decode(value, into); err != nil {
		return damaged(key, err)
	}
	return nil
}

// damaged says what to do. Guessing would be worse than waiting: this process may have promised
// what it does not know any more.
func damaged(key string, err error) error {
	if errors.Is(err, ErrNewerFormat) {
		return fmt.Errorf("restart: %s: %w (use that version, or let the node join with an empty disk)", key, err)
	}
	return fmt.Errorf("restart: %s: %w: %w (empty the node's disk and let it join: the others bring it back)", key, ErrDamaged, err)
}

// checkGroup finds out whether the secret is that of the view's group.
func (s *State) checkGroup(g groupPart) error {
	of := ""
	if s.View != nil {
		of = s.View.Group
	}
	if g.Group != of || (of == "") != (g.Secret == "") {
		return fmt.Errorf("a secret of group %.64q, and a view of group %.64q", g.Group, of)
	}
	return nil
}

// check finds out whether the parts fit each other.
func (s *State) check(voteView, logsView order.ViewID) error {
	if len(s.Incarnations) > maxIncarnations {
		return fmt.Errorf("%d incarnations, at most %d", len(s.Incarnations), maxIncarnations)
	}
	if len(s.Former) > maxFormer {
		return fmt.Errorf("%d former members, at most %d", len(s.Former), maxFormer)
	}
	for _, f := range s.Former {
		if err := checkAddr(f.Addr); err != nil {
			return fmt.Errorf("former node %d: %w", f.ID, err)
		}
	}
	if s.View == nil {
		if voteView != 0 || logsView != 0 {
			return fmt.Errorf("a vote about view %d and logs of view %d, and no view", voteView, logsView)
		}
		return nil
	}
	if err := s.View.Validate(); err != nil {
		return err
	}
	if s.Node == 0 || voteView != s.View.ID || logsView != s.View.ID {
		return fmt.Errorf("node %d, view %d, a vote about view %d and logs of view %d", s.Node, s.View.ID, voteView, logsView)
	}
	if s.Echo != nil && s.Echo.View != nil {
		if err := checkNext(s.View, s.Echo.View); err != nil {
			return err
		}
	}
	if s.Accepted != nil {
		return checkNext(s.View, s.Accepted.View)
	}
	return nil
}

// checkNext finds out whether a view can follow another one.
func checkNext(base, next *views.View) error {
	switch {
	case next == nil:
		return errors.New("a successor without view")
	case next.ID != base.ID+1 || next.Cluster != base.Cluster || next.Key() == "" || next.Key() == base.Key():
		return fmt.Errorf("view %d of %q cannot follow view %d of %q, or its key is not a new one", next.ID, clip(next.Cluster), base.ID, base.Cluster)
	case base.Group != "" && !next.Follows(base):
		return fmt.Errorf("view %d of group %.64q cannot follow view %d of group %q", next.ID, next.Group, base.ID, base.Group)
	}
	return next.Validate()
}

func encode(part any) []byte {
	text, err := json.Marshal(part)
	if err != nil {
		panic(fmt.Errorf("restart: a part that is no JSON: %w", err)) // plain structs of numbers and strings
	}
	value := append(make([]byte, 0, valueHeaderBytes+len(text)), valueMagic...)
	value = append(value, valueFormat)
	value = binary.LittleEndian.AppendUint32(value, crc.Of(text))
	return append(value, text...)
}

func decode(value []byte, into any) error {
	if len(value) < valueHeaderBytes || string(value[:len(valueMagic)]) != valueMagic {
		return fmt.Errorf("%d bytes that do not begin with %q", len(value), valueMagic)
	}
	if format := value[len(valueMagic)]; format > valueFormat {
		return fmt.Errorf("%w: format %d, this version knows %d", ErrNewerFormat, format, valueFormat)
	} else if format == 0 {
		return errors.New("format 0 is none")
	}
	text := value[valueHeaderBytes:]
	if sum := binary.LittleEndian.Uint32(value[len(valueMagic)+1:]); sum != crc.Of(text) {
		return fmt.Errorf("%d bytes with a wrong checksum", len(text))
	}
	return json.Unmarshal(text, into)
}

// current reports whether a value is there, and of the format that encode writes.
func current(value []byte) bool {
	return len(value) >= valueHeaderBytes && value[len(valueMagic)] == valueFormat
}

// save makes a state durable: what changed of it, in one transaction.
func (m *Memory) save(s State) error {
	var view, group, past any
	at := order.ViewID(0)
	if s.View != nil {
		view, at = s.Successor.keyed(), s.View.ID
		if s.View.Group != "" {
			group = groupPart{s.View.Group, s.Secret.Reveal(), s.Before}
		}
		past = pastPart{s.Former}
	}
	changed := map[string][]byte{}
	was := &m.state
	sameView := s.Successor == was.Successor
	for _, part := range []struct {
		key  string
		what any
		same bool
	}{
		{keyNode, nodePart{s.Node, s.Incarnations, s.Disk, s.GaveUp}, s.Node == was.Node && slices.Equal(s.Incarnations, was.Incarnations) && s.Disk == was.Disk && s.GaveUp == was.GaveUp},
		{keyView, view, sameView},
		{keyVote, keyedVote{at, s.Echo.keyed(), s.Promised, s.Accepted.keyed()}, sameView && s.Echo == was.Echo && s.Promised == was.Promised && s.Accepted == was.Accepted},
		{keyLogs, logsPart{at, s.Incomplete}, sameView && slices.Equal(s.Incomplete, was.Incomplete)},
		{keyRoot, group, sameView && s.Secret == was.Secret && s.Before == was.Before},
		{keyPast, past, slices.Equal(s.Former, was.Former)},
	} {
		if part.what == nil || part.same && current(m.kept[part.key]) {
			continue // no view yet, and a view is never forgotten; or it is on the disk already
		}
		if value := encode(part.what); !bytes.Equal(value, m.kept[part.key]) {
			changed[part.key] = value
		}
	}
	if err := m.put(changed); err != nil {
		return err
	}
	m.state = s
	return nil
}

func (m *Memory) put(changed map[string][]byte) error {
	if len(changed) > 0 {
		if err := m.disk.Put(changed); err != nil {
			return fmt.Errorf("restart: %w", err)
		}
	}
	maps.Copy(m.kept, changed)
	return nil
}

// change applies a change to the state and makes it durable.
func (m *Memory) change(apply func(*State) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	if err := apply(&s); err != nil {
		return err
	}
	return m.save(s)
}

// Keep makes a state of the Core's durable.
func (m *Memory) Keep(s State) error {
	return m.change(func(was *State) error { *was = s; return nil })
}

// State is what is known.
func (m *Memory) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// View is the last one known to be in force; nil: none.
func (m *Memory) View() *views.View { return m.State().View }

// Begin notes the identity of this process, before it asks to become a member. If it becomes a
// member without learning of it, its disk still shows that the view means this process.
func (m *Memory) Begin(self views.Member) error {
	return m.change(func(s *State) error {
		if err := s.belongs(self.ID); err != nil {
			return err
		}
		if s.Disk == 0 {
			s.Disk = self.Incarnation // which no other process has
		}
		s.begin(self)
		return nil
	})
}

func (s *State) belongs(id order.NodeID) error {
	if id == 0 || s.Node != 0 && s.Node != id {
		return fmt.Errorf("restart: %w: it is that of node %d, and this is node %d (configure that node, or use another directory)", ErrOtherNode, s.Node, id)
	}
	return nil
}

// Enter is called before the first step in a view that this process was not in before: the first
// view, a view that it joined, or a restarted one. Incomplete are the logs of its shards in that
// view that lack more than an end. Begin is called before Enter.
func (m *Memory) Enter(v *views.View, incomplete []LogID) error {
	return m.change(func(s *State) error { return s.enter(v, incomplete) })
}

func (s *State) enter(v *views.View, incomplete []LogID) error {
	rank, ok := v.RankOf(s.Node)
	switch {
	case !ok:
		return fmt.Errorf("restart: node %d enters view %d: %w: it is no member", s.Node, v.ID, ErrOtherHistory)
	case s.View != nil && !s.View.Kin(v):
		return fmt.Errorf("restart: node %d enters view %d: %w", s.Node, v.ID, views.OtherHistory(fmt.Sprintf("view %d", v.ID), s.View.Group, v.Group))
	case s.View != nil && !s.is(v) && v.ID <= s.View.ID:
		return fmt.Errorf("restart: node %d enters view %d after view %d: %w (if the group was bootstrapped anew, empty this node's disk)", s.Node, v.ID, s.View.ID, ErrOtherHistory)
	case s.is(v) && s.Promised != (Ballot{}):
		return fmt.Errorf("restart: node %d enters view %d: %w", s.Node, v.ID, ErrPromised) // Y5
	}
	s.begin(v.Members[rank])
	if !s.is(v) {
		s.move(Successor{View: v})
		s.Secret = v.Secret
	}
	s.Incomplete = nil
	for _, id := range incomplete {
		s.Incomplete = append(s.Incomplete, IncompleteLog{id, v.ID})
	}
	return nil
}

// Echo comes before a decision about what follows a view is shown to others (Y2). Next is nil if
// the group ends.
func (m *Memory) Echo(base order.ViewID, b viewchange.Ballot, next *views.View) error {
	return m.change(func(s *State) error { return s.echo(base, b, next) })
}

func (s *State) echo(base order.ViewID, b viewchange.Ballot, next *views.View) error {
	s.catchUp(base)
	if s.View == nil || s.View.ID != base {
		return fmt.Errorf("restart: a decision about view %d: %w", base, ErrOtherHistory)
	}
	if s.Promised != (Ballot{}) {
		return fmt.Errorf("restart: a decision about view %d: %w", base, ErrPromised) // Y5
	}
	s.Echo = &Echo{Ballot: b, View: next}
	return nil
}

// catchUp takes a view that was installed after its echo, which was not said yet.
func (s *State) catchUp(id order.ViewID) {
	if e := s.Echo; e != nil && e.View != nil && e.View.ID == id {
		s.move(Successor{View: e.View})
	}
}

// Installed says that a view is in force. It may be late, as long as no view is passed over without
// an echo.
func (m *Memory) Installed(v *views.View) error {
	return m.change(func(s *State) error {
		s.installed(v)
		return nil
	})
}

func (s *State) installed(v *views.View) {
	if s.View == nil || v.ID > s.View.ID {
		s.move(Successor{View: v})
	}
}

// Complete says that a log has got what it lacked since a view, or before. What it came to lack
// later it still does: this process left the log's shard, and came into it again.
func (m *Memory) Complete(id LogID, v order.ViewID) error {
	return m.change(func(s *State) error {
		s.catchUp(v)
		s.completed(id, v)
		return nil
	})
}

func (s *State) completed(id LogID, v order.ViewID) {
	s.Incomplete = slices.DeleteFunc(slices.Clone(s.Incomplete), func(l IncompleteLog) bool { return l.LogID == id && l.Since <= v })
}
