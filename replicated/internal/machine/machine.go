package machine

import (
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Machine is the state of an object beside the application's. The zero value is that of an object
// that begins.
type Machine struct {
	time     uint64
	view     uint64         // the latest one with a record; at its first record the time of each session began anew
	executed uint64         // commands that were executed
	shard    int            // 1 + its number; 0: the object has none, or no record has said which one this is
	enabled  []string       // by number
	known    []announcement // one of each node, in the order in which they came; MaxAnnouncements at most
	sessions []*session     // by number, ascending
	opened   uint64         // sessions so far
	expiry   uint64         // no session expires before; 0 if there is none
	digest   digest
	at       invoke.Cursor // of the last record

	tokens   map[invoke.Token]*session
	accounts map[string]*account
	kept     kept // of all sessions

	events     []invoke.Event // in their order
	eventBytes int
	dropped    invoke.Cursor // of the last event that is not kept any more

	sources  []source // by name
	outboxes []outbox // by destination
	outBytes int
	lastSent invoke.Cursor // of what the handlers of the records at it sent last

	emitted, sent int // by the command that is executed, with mutants
}

// Peer is a process that is a member. A node that was started again is another one, which may run
// another program.
type Peer struct{ Node, Incarnation uint64 }

// MaxAnnouncements bounds the nodes whose announcements are kept. It is more than a view has
// members: a member whose announcement is dropped, because later ones came, announces again.
const MaxAnnouncements = 128

// announcement is what a node's process can execute, as it said last.
type announcement struct {
	node        uint64
	incarnation uint64
	names       []string // sorted
}

// digest is the first digest that a member gave of the latest count.
type digest struct {
	node, count, sum uint64
}

// Record is one ordered message, or one of several records in it, which are applied one after the
// other.
type Record struct {
	View   uint64 // number of the view in which its message has its position
	Seq    uint64 // its position
	Sender uint64 // node id
	Time   uint64 // nanoseconds since the Unix epoch; 0: the record's own, that of the sender's clock
	Data   []byte
}

// Handler executes commands for the application.
type Handler interface {
	// Execute executes an operation, by its number, and appends its reply to out. Refused is true if
	// the reply is the text of an error. C is valid until Execute returns.
	Execute(c *Execution, args, out []byte) (reply []byte, refused bool)
}

// Execution is a command that is to be executed.
type Execution struct {
	Operation int
	Call      uint64 // of a record that this member sent
	Sender    uint64 // the member that sent it, or relayed it
	Session   uint64 // 0: it is a member's own
	Identity  string // of the session's client
	Source    string // the object whose handler sent it
	Time      uint64
}

// Result is what became of a record.
type Result struct {
	Header
	Status  invoke.Status
	Session uint64 // of Open: the session
	Reply   []byte // of a Client record: valid until the next Apply. A member's command gives its reply through the Handler.
	Enabled bool   // operations were enabled
	Parted  *Parted
	Hash    bool   // every member hashes its state at this record
	Wish    uint64 // and its sender has this number for it

	execution Execution // what the handler gets
}

// Parted says that two members have different states.
type Parted struct {
	Count    uint64 // commands that were executed when they differed
	One      uint64 // node ids
	Other    uint64
	OneSum   uint64
	OtherSum uint64
}

// Time returns the object's time.
func (m *Machine) Time() uint64 { return m.time }

// At returns the view and the position of the last record.
func (m *Machine) At() (view, seq uint64) { return m.at.View, m.at.Seq }

// Shard returns 1 + the number of the shard that the machine is the state of, or 0 if the object
// has no shards, or if no record has said which one it is.
func (m *Machine) Shard() int { return m.shard }

// Executed returns how many commands were executed.
func (m *Machine) Executed() uint64 { return m.executed }

// Enabled returns the names of the enabled operations, by number. It must not be changed.
func (m *Machine) Enabled() []string { return m.enabled }

// Announced reports whether a member's last announcement is names, which are sorted.
func (m *Machine) Announced(p Peer, names []string) bool {
	i, ok := m.announced(p)
	return ok && slices.Equal(m.known[i].names, names)
}

// Lacking returns the members that did not announce an operation, and those of them that announced
// nothing.
func (m *Machine) Lacking(name string, members []Peer) (lacking, silent []uint64) {
	for _, p := range members {
		i, ok := m.announced(p)
		if !ok {
			silent = append(silent, p.Node)
		}
		if !ok || !contains(m.known[i].names, name) {
			lacking = append(lacking, p.Node)
		}
	}
	return lacking, silent
}

// Ready returns the operations that all members know and that are not enabled yet, sorted.
func (m *Machine) Ready(members []Peer) (names []string) {
	if len(members) == 0 {
		return nil
	}
	i, ok := m.announced(members[0])
	if !ok {
		return nil
	}
	for _, name := range m.known[i].names {
		if slices.Contains(m.enabled, name) {
			continue
		}
		if lacking, _ := m.Lacking(name, members); len(lacking) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// Due returns the record about operations that a member is to send, or nil: its announcement,
// unless that is under way, or, from the leader of a view, what can be enabled, and which shard
// this is. May, if it is not nil, chooses which of the operations that can be enabled are enabled
// now; what an object begins with is enabled at once.
func (m *Machine) Due(h Header, self Peer, members []Peer, view uint64, names []string, announcing bool, may func([]string) []string) (record []byte, announces bool) {
	if !announcing && !m.Announced(self, names) {
		return AppendKnows(nil, h, self.Incarnation, names), true
	}
	ready := m.Ready(members)
	if may != nil && len(m.enabled) > 0 {
		ready = may(ready)
	}
	if (len(ready) > 0 || h.Shard != m.shard) && members[0] == self {
		return AppendEnable(nil, h, view, ready), false
	}
	return nil, false
}

// Sessions returns how many sessions there are.
func (m *Machine) Sessions() int { return len(m.sessions) }

// Identity returns whose a session is, and whether it is there.
func (m *Machine) Identity(session uint64) (string, bool) {
	if i, ok := m.session(session); ok {
		return m.sessions[i].owner.Identity, true
	}
	return "", false
}

func contains(sorted []string, name string) bool {
	_, ok := slices.BinarySearch(sorted, name)
	return ok
}

func (m *Machine) announcement(node uint64) (int, bool) {
	i := slices.IndexFunc(m.known, func(a announcement) bool { return a.node == node })
	return i, i >= 0
}

// announced returns the place of a process's announcement.
func (m *Machine) announced(p Peer) (int, bool) {
	i, ok := m.announcement(p.Node)
	return i, ok && m.known[i].incarnation == p.Incarnation
}

// Apply applies one record and sets out, whatever it was before. It does the same at every member
// that applied the same records before. A caller that applies many records uses one Result for all:
// nothing of it is copied or allocated for a record.
func (m *Machine) Apply(r *Record, h Handler, out *Result) {
	m.at = invoke.Cursor{View: r.View, Seq: r.Seq}
	if mutant.Enabled {
		m.emitted, m.sent = 0, 0
	}
	out.Status, out.Session, out.Reply, out.Enabled, out.Parted, out.Hash = invoke.Done, 0, nil, false, nil, false
	header := &out.Header
	if parse(r.Data, header) != nil {
		out.Status = invoke.Malformed
		return
	}
	t := r.Time
	if t == 0 {
		t = header.Time
	}
	if r.View != m.view {
		m.renew(r.View, t)
	}
	m.advance(t)
	if !m.has(header) {
		out.Status = invoke.Elsewhere
		return
	}
	if header.Kind == Command {
		if header.Operation >= len(m.enabled) {
			out.Status = invoke.Disabled
			return
		}
		m.execute(r, h, out, 0, "", "", r.Data[headerBytes:], nil)
		return
	}
	rest := reader{b: r.Data[headerBytes:]}
	switch header.Kind {
	case Client:
		m.client(r, rest, h, out)
	case Open:
		m.open(rest, out)
	case Close:
		out.Status = m.close(rest)
	case Touch:
		out.Status = m.touch(rest)
	case Acknowledge:
		out.Status = m.ended(rest)
	case Knows:
		out.Status = m.announce(r.Sender, rest)
	case Enable:
		out.Status = m.enable(r.View, header.Shard, rest, out)
	case Digest:
		out.Status = m.compare(r.Sender, rest, out)
	case Forwarded:
		m.forwarded(r, rest, h, out)
	case Handed:
		out.Status = m.handed(rest)
	case Reply:
	}
}

// ApplyCommand accepts the next record of a message if the record is a member's command for this
// shard, its operation is enabled, and its sender does not want the replies of all members. The
// caller then executes the command: the arguments follow the first CommandBytes of the record. For
// any other record ApplyCommand returns false and changes nothing; the caller applies that record
// with Apply. Precondition: the message has one time for all of its records, and Apply applied an
// earlier record of it that was not Malformed. So the object's time stays, and no session ends.
func (m *Machine) ApplyCommand(rs *Records) (operation int, record []byte, ok bool) {
	b := rs.rest
	if !rs.More() {
		return 0, nil, false
	}
	n := PartBytes + int(order.Uint32(b)) // Split has checked the lengths
	record = b[PartBytes:n:n]
	operation = int(order.Uint16(record[2:]))
	if Kind(record[0]) != Command || int(record[1]) != m.shard<<1 || operation >= len(m.enabled) {
		return 0, nil, false
	}
	if mutant.Enabled {
		m.emitted, m.sent = 0, 0
	}
	m.executed++
	rs.rest = b[n:]
	return operation, record, true
}

// has reports whether a record is for this shard (RO10). A member that goes to another shard takes
// along what it sent and its shard has not delivered, and the other shard delivers it. What a
// process can execute, and a reply, belong to no shard; and what a leader enables counts in one
// view only.
func (m *Machine) has(h *Header) bool {
	if mutant.Enabled && mutant.On(mutant.AnyShard) {
		return true
	}
	return h.Shard == m.shard || h.Kind == Knows || h.Kind == Enable || h.Kind == Reply
}

// advance takes a record's time, and ends what expires by then (RO3, RO4).
func (m *Machine) advance(t uint64) {
	m.time = max(m.time, t)
	if m.expiry == 0 || m.time < m.expiry {
		return
	}
	m.expiry = 0
	m.sessions = slices.DeleteFunc(m.sessions, func(s *session) bool {
		if s.expiry > m.time {
			return false
		}
		m.part(s)
		return true
	})
	for _, s := range m.sessions {
		m.expires(s.expiry)
	}
}

// renew begins the time of each session anew with the first record of a view. Clients may have had
// no member to go to before: an outage that is longer than their timeouts ends no session.
func (m *Machine) renew(view, t uint64) {
	m.view, m.time, m.expiry = view, max(m.time, t), 0
	for _, s := range m.sessions {
		m.extend(s)
	}
}

// expires notes when a session expires, if nothing else happens to it.
func (m *Machine) expires(t uint64) {
	if m.expiry == 0 || t < m.expiry {
		m.expiry = t
	}
}

// execute executes the command of a record, and returns its reply.
func (m *Machine) execute(r *Record, h Handler, out *Result, session uint64, identity, source string, args, room []byte) (reply []byte) {
	m.executed++
	x := &out.execution
	x.Operation, x.Call, x.Sender, x.Time = out.Operation, out.Call, r.Sender, m.time
	x.Session = session
	if len(x.Identity)|len(identity)|len(x.Source)|len(source) != 0 { // of most commands they are empty
		x.Identity, x.Source = identity, source
	}
	reply, failed := h.Execute(x, args, room)
	if failed {
		out.Status = invoke.Failed
	}
	return reply
}

func (m *Machine) announce(node uint64, rest reader) invoke.Status {
	incarnation := rest.uint64()
	names := rest.names()
	if rest.err != nil || len(rest.b) != 0 {
		return invoke.Malformed
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if i, ok := m.announcement(node); ok {
		m.known = slices.Delete(m.known, i, i+1)
	} else if len(m.known) == MaxAnnouncements {
		m.known = slices.Delete(m.known, 0, 1)
	}
	m.known = append(m.known, announcement{node, incarnation, names})
	return invoke.Done
}

// enable enables operations if the record has its position in the view whose members its sender
// looked at (RO5): a member that joined later may not know them. Its sender is in this shard, since
// it was in that view (RO10).
func (m *Machine) enable(view uint64, shard int, rest reader, out *Result) invoke.Status {
	of := rest.uint64()
	names := rest.names()
	if rest.err != nil || len(rest.b) != 0 {
		return invoke.Malformed
	}
	if of != view {
		return invoke.Done
	}
	if m.shard != shard {
		m.shard, out.Enabled = shard, true
	}
	for _, name := range names {
		if !slices.Contains(m.enabled, name) && len(m.enabled) < MaxOperations {
			m.enabled = append(m.enabled, name)
			out.Enabled = true
		}
	}
	return invoke.Done
}

// compare compares a member's digest with the first one of the same count. One of no commands is a
// wish that all members hash their states.
func (m *Machine) compare(node uint64, rest reader, out *Result) invoke.Status {
	count, sum := rest.uint64(), rest.uint64()
	if rest.err != nil || len(rest.b) != 0 {
		return invoke.Malformed
	}
	switch first := m.digest; {
	case count == 0:
		out.Hash, out.Wish = true, sum
	case count > first.count:
		m.digest = digest{node: node, count: count, sum: sum}
	case count == first.count && sum != first.sum:
		out.Parted = &Parted{Count: count, One: first.node, OneSum: first.sum, Other: node, OtherSum: sum}
	}
	return invoke.Done
}
