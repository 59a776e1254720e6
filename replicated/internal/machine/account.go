package machine

import "github.com/squall-go/squall/replicated/internal/invoke"

// account is what the sessions of one party take. It follows from the sessions.
type account struct {
	sessions int
	kept     kept
}

// kept is how much is kept of replies that were not acknowledged.
type kept struct{ replies, bytes int }

func (k *kept) add(r *reply)  { k.replies, k.bytes = k.replies+1, k.bytes+len(r.data) }
func (k *kept) drop(r *reply) { k.replies, k.bytes = k.replies-1, k.bytes-len(r.data) }

// join counts a session. Tokens and accounts are looked up only, never listed, so that the order of
// maps does not matter.
func (m *Machine) join(s *session) {
	if m.tokens == nil {
		m.tokens, m.accounts = map[invoke.Token]*session{}, map[string]*account{}
	}
	m.tokens[s.token] = s
	a := m.accounts[s.owner.Account]
	if a == nil {
		a = &account{}
		m.accounts[s.owner.Account] = a
	}
	a.sessions++
	s.account = a
	for i := range s.replies {
		a.kept.add(&s.replies[i])
		m.kept.add(&s.replies[i])
	}
}

// part ends what join counted.
func (m *Machine) part(s *session) {
	for i := range s.replies {
		m.drop(s, &s.replies[i])
	}
	delete(m.tokens, s.token)
	if s.account.sessions--; s.account.sessions == 0 {
		delete(m.accounts, s.owner.Account)
	}
}

// drop ends the count of a reply.
func (m *Machine) drop(s *session, r *reply) {
	s.account.kept.drop(r)
	m.kept.drop(r)
}

// mayExecute reports whether a session may have the reply of another number kept. It may have that
// of the first one that is not acknowledged: its other commands wait for that one, whatever other
// sessions do.
func (m *Machine) mayExecute(s *session, number uint64) bool {
	if number == s.acked+1 {
		return true
	}
	return s.kept <= MaxKeptBytes && s.account.kept.replies < MaxReplies/2 && m.kept.replies < MaxReplies
}

// mayKeep reports whether the bytes of a reply can be kept with those that are.
func (m *Machine) mayKeep(s *session, n int) bool {
	return n <= MaxKeptBytes && s.account.kept.bytes+n <= MaxRepliesBytes/2 && m.kept.bytes+n <= MaxRepliesBytes
}
