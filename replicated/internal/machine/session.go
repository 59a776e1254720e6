package machine

import (
	"crypto/sha256"
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// session is what is remembered of a client.
type session struct {
	number  uint64
	token   invoke.Token
	owner   invoke.Owner
	account *account
	timeout uint64
	expiry  uint64
	acked   uint64  // all numbers up to here were executed or given up, and their replies are not needed
	replies []reply // of numbers above acked, ascending
	room    []reply // the memory that replies is a part of, from its beginning
	kept    int     // bytes of the replies
	free    [][]byte
}

// reply is what an executed command returned.
type reply struct {
	number uint64
	failed bool
	cut    bool // its data was too large to be kept, or is not needed any more
	data   []byte
}

func (m *Machine) session(number uint64) (int, bool) {
	return slices.BinarySearchFunc(m.sessions, number, func(s *session, n uint64) int {
		switch {
		case s.number < n:
			return -1
		case s.number > n:
			return 1
		}
		return 0
	})
}

// open opens a session, or finds the one that the token stands for already.
func (m *Machine) open(rest reader, out *Result) {
	var token invoke.Token
	copy(token[:], rest.take(invoke.TokenBytes))
	timeout := rest.uint64()
	of := invoke.Owner{Account: string(rest.take(rest.uint16()))}
	of.Identity = string(rest.b)
	if rest.err != nil || timeout == 0 || len(of.Account) > MaxIdentity || len(of.Identity) > MaxIdentity {
		out.Status = invoke.Malformed
		return
	}
	if s := m.tokens[token]; s != nil {
		if s.owner.Identity != of.Identity {
			out.Status = invoke.NotThere
			return
		}
		m.extend(s)
		out.Session = s.number
		return
	}
	if a := m.accounts[of.Account]; len(m.sessions) >= MaxSessions || a != nil && a.sessions >= MaxSessions/2 {
		out.Status = invoke.Crowded
		return
	}
	m.opened++
	number := SessionNumber(token, m.opened)
	i, ok := m.session(number)
	if ok {
		out.Status = invoke.NotThere
		return
	}
	s := &session{number: number, token: token, owner: of, timeout: min(timeout, MaxTimeout)}
	m.join(s)
	m.extend(s)
	m.sessions = slices.Insert(m.sessions, i, s)
	out.Session = s.number
}

// SessionNumber returns the number of the session that a token opens as the nth of the object. The
// token, which is random and a secret of the client, makes it one that no other client guesses:
// without TLS it is all that distinguishes them. The count makes it one that no session had, also
// if the client uses the token again.
func SessionNumber(token invoke.Token, nth uint64) uint64 {
	h := sha256.Sum256(order.AppendUint64(token[:], nth))
	return order.Uint64(h[:])
}

// extend has a session expire its timeout from now.
func (m *Machine) extend(s *session) {
	s.expiry = m.time + s.timeout
	if s.expiry < m.time { // of a clock that is centuries ahead
		s.expiry = ^uint64(0)
	}
	m.expires(s.expiry)
}

func (m *Machine) close(rest reader) invoke.Status {
	number := rest.uint64()
	if rest.err != nil || len(rest.b) != 0 {
		return invoke.Malformed
	}
	i, ok := m.session(number)
	if !ok {
		return invoke.NotThere
	}
	m.part(m.sessions[i])
	m.sessions = slices.Delete(m.sessions, i, i+1)
	return invoke.Done
}

func (m *Machine) touch(rest reader) invoke.Status {
	for len(rest.b) > 0 {
		number := rest.uint64()
		if rest.err != nil {
			return invoke.Malformed
		}
		if i, ok := m.session(number); ok {
			m.extend(m.sessions[i])
		}
	}
	return invoke.Done
}

// client executes a client's command if its number was not executed before (RO1), and answers with
// the reply of the execution if it was (RO2).
func (m *Machine) client(r *Record, rest reader, h Handler, out *Result) {
	number, n, acked := rest.uint64(), rest.uint64(), rest.uint64()
	if rest.err != nil || n == 0 || acked >= n {
		out.Status = invoke.Malformed
		return
	}
	i, ok := m.session(number)
	if !ok {
		out.Status = invoke.NotThere
		return
	}
	s := m.sessions[i]
	m.extend(s)
	m.acknowledge(s, acked)
	if mutant.Enabled && mutant.On(mutant.ReplyDropped) {
		m.acknowledge(s, n-1)
	}
	at, found := s.reply(n)
	if mutant.Enabled && mutant.On(mutant.ExecutedAgain) && found {
		s.replies, found = slices.Delete(s.replies, at, at+1), false
	}
	switch {
	case n <= s.acked:
		out.Status = invoke.Forgotten
	case found:
		out.Status, out.Reply = invoke.Again, s.replies[at].data
		if s.replies[at].cut {
			out.Status = invoke.NotKept
		} else if s.replies[at].failed {
			out.Status = invoke.AgainFail
		}
	case n > s.acked+invoke.MaxOutstanding:
		out.Status = invoke.TooMany
	case !m.mayExecute(s, n):
		out.Status = invoke.Full
	case out.Operation >= len(m.enabled):
		out.Status = invoke.Disabled
	default:
		data := m.execute(r, h, out, number, s.owner.Identity, "", rest.b, s.buffer())
		out.Reply = data
		kept := reply{number: n, failed: out.Status == invoke.Failed, data: data}
		if !m.mayKeep(s, len(data)) {
			kept.cut, kept.data = true, nil
		}
		s.account.kept.add(&kept)
		m.kept.add(&kept)
		s.keep(at, kept)
	}
}

// ended notes which replies of a session are not needed any more.
func (m *Machine) ended(rest reader) invoke.Status {
	number, acked := rest.uint64(), rest.uint64()
	if rest.err != nil || len(rest.b) > invoke.EndedBytes {
		return invoke.Malformed
	}
	i, ok := m.session(number)
	if !ok {
		return invoke.NotThere
	}
	s := m.sessions[i]
	m.extend(s)
	m.acknowledge(s, acked)
	for i := range s.replies {
		at := s.replies[i].number - acked - 1
		if bit := at / 8; bit >= uint64(len(rest.b)) || rest.b[bit]>>(at%8)&1 == 0 {
			if !mutant.Enabled || !mutant.On(mutant.UnendedFreed) {
				continue
			}
		}
		m.cut(s, &s.replies[i])
	}
	return invoke.Done
}

// cut drops the data of a reply. Its number is kept: it was executed (RO1).
func (m *Machine) cut(s *session, r *reply) {
	m.drop(s, r)
	s.kept -= len(r.data)
	r.cut, r.data = true, nil
	s.account.kept.add(r)
	m.kept.add(r)
}

// acknowledge drops the replies of numbers up to acked.
func (m *Machine) acknowledge(s *session, acked uint64) {
	if acked <= s.acked {
		return
	}
	s.acked = acked
	n := 0
	for n < len(s.replies) && s.replies[n].number <= acked {
		n++
	}
	for i := range n {
		m.drop(s, &s.replies[i])
		s.kept -= len(s.replies[i].data)
		if len(s.free) < maxFree && cap(s.replies[i].data) <= maxFreeBytes {
			s.free = append(s.free, s.replies[i].data)
		}
	}
	clear(s.replies[:n])
	s.replies = s.replies[n:] // what is left does not move: a session may have a thousand replies, and loses one with each command
}

// keep inserts a reply. Replies that reached the end of their memory move to its beginning, when
// most of it is free, or else to more memory.
func (s *session) keep(at int, r reply) {
	if n := len(s.replies); n == cap(s.replies) {
		if cap(s.room) < 2*n+2 {
			s.room = make([]reply, 0, 3*n+minRoom)
		}
		s.replies = append(s.room[:0], s.replies...)
	}
	s.replies = slices.Insert(s.replies, at, r)
	s.kept += len(r.data)
}

// minRoom is for how many replies a session has memory: most have one call at a time.
const minRoom = 4

// Buffers for replies that a session keeps for the next ones.
const (
	maxFree      = 8
	maxFreeBytes = 1 << 10
)

// buffer returns an empty buffer for a reply.
func (s *session) buffer() []byte {
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b[:0]
	}
	return nil
}

// reply returns where the reply of a number is, or would be.
func (s *session) reply(number uint64) (int, bool) {
	if n := len(s.replies); n == 0 || s.replies[n-1].number < number { // most commands come in their order
		return n, false
	}
	return slices.BinarySearchFunc(s.replies, number, func(r reply, n uint64) int {
		switch {
		case r.number < n:
			return -1
		case r.number > n:
			return 1
		}
		return 0
	})
}
