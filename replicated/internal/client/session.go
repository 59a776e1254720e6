package client

import (
	"slices"
	"time"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Session is a client's session with one object.
type Session struct {
	timeout time.Duration
	token   invoke.Token
	opening bool
	number  uint64 // 0: it is not open
	last    uint64 // number of the last command
	acked   uint64 // all up to here have ended
	ended   [invoke.MaxOutstanding]ended
	used    time.Time
	kept    bool // the object may keep replies that are not needed any more

	// Commands that the object refused, because it keeps too many replies, and how many of these may
	// be sent again.
	refused []uint64 // ascending
	permits int
	unsaid  int  // numbers after acked that have ended, and that no acknowledgement names
	saying  bool // an acknowledgement is being sent
}

// ended says whether a number after the acknowledged one has ended.
type ended uint8

const (
	open   ended = iota
	unsaid       // it has
	said         // it has, and an acknowledgement names it
)

// permitsPerEnd is how many refused commands are sent again when one ends. With one, as many would
// be in flight as fitted when replies were largest.
const permitsPerEnd = 2

// Acknowledgement says which replies of a session are not needed any more.
type Acknowledgement struct {
	Session uint64
	Acked   uint64   // all up to here
	Ended   []byte   // bit i: also Acked+1+i
	first   []uint64 // numbers that none has named before
}

// CommandID is what a request says of a command but its operation.
type CommandID struct {
	Session uint64
	Number  uint64
	Acked   uint64 // replies of numbers up to here are not needed any more
}

// Step is what comes before a command.
type Step uint8

// What comes before a command.
const (
	Go        Step = iota // nothing
	OpenFirst             // the session is to be opened, and then Opened called
	Wait                  // something else of the session ends first
	Say                   // an Acknowledgement is to be sent, and then Said called
)

// NewSession returns a session that is not open. It lives as long as it is used once in every
// timeout. No other session has its token.
func NewSession(timeout time.Duration, token invoke.Token) Session {
	return Session{timeout: timeout, token: token}
}

// Token returns what stands for the session while it is being opened.
func (s *Session) Token() invoke.Token { return s.token }

// Number returns the number of the session, or 0 if it is not open.
func (s *Session) Number() uint64 { return s.number }

// Begin gives a command a number (RC1), if the step is Go.
func (s *Session) Begin(now time.Time) (CommandID, Step) {
	switch {
	case s.number == 0 && !s.opening:
		s.opening = true
		return CommandID{}, OpenFirst
	case s.number == 0 || s.last >= s.acked+invoke.MaxOutstanding: // RC3
		return CommandID{}, Wait
	}
	s.last++
	s.used, s.kept = now, true
	return CommandID{s.number, s.last, s.acked}, Go
}

// Opened takes the number of the session, or 0 if it could not be opened.
func (s *Session) Opened(number uint64) {
	*s = Session{timeout: s.timeout, token: s.token, number: number, used: s.used}
}

// End notes that a command needs no answer any more (RC2).
func (s *Session) End(c CommandID) {
	if c.Session != s.number || c.Number <= s.acked || c.Number > s.last {
		return
	}
	if s.ended[c.Number%invoke.MaxOutstanding] == open {
		s.ended[c.Number%invoke.MaxOutstanding] = unsaid
		s.unsaid++
	}
	if mutant.Enabled && mutant.On(mutant.EarlyAcknowledged) {
		s.acked = max(s.acked, c.Number)
	}
	for s.acked < s.last && s.ended[(s.acked+1)%invoke.MaxOutstanding] != open {
		s.acked++
		if s.ended[s.acked%invoke.MaxOutstanding] == unsaid {
			s.unsaid--
		}
		s.ended[s.acked%invoke.MaxOutstanding] = open
	}
	if i, ok := slices.BinarySearch(s.refused, c.Number); ok { // its caller gave it up
		s.refused = slices.Delete(s.refused, i, i+1)
	}
	if !mutant.Enabled || !mutant.On(mutant.NoPermits) {
		s.permit(permitsPerEnd)
	}
}

func (s *Session) permit(n int) { s.permits = min(s.permits+n, len(s.refused)) }

// Refused notes that the object has not executed a command, because it keeps too many replies.
// Again says when it is sent again.
func (s *Session) Refused(c CommandID) {
	if i, ok := slices.BinarySearch(s.refused, c.Number); !ok && c.Session == s.number {
		s.refused = slices.Insert(s.refused, i, c.Number)
	}
}

// Again decides how a refused command goes on (RC7). If the step is Go, it is sent again as c says
// then.
func (s *Session) Again(c *CommandID) Step {
	i, ok := slices.BinarySearch(s.refused, c.Number)
	switch {
	case c.Session != s.number || !ok: // the object says that the session has ended
		return Go
	case c.Number == s.acked+1 || i < s.permits:
		s.refused = slices.Delete(s.refused, i, i+1)
		s.permits = max(0, s.permits-1)
		c.Acked = s.acked
		return Go
	case s.unsaid > 0 && !s.saying && (!mutant.Enabled || !mutant.On(mutant.NoneSaid)):
		return Say
	}
	return Wait
}

// Retry has a refused command sent again before anything else has ended, as c says then: an
// acknowledgement failed.
func (s *Session) Retry(c *CommandID) {
	if c.Session != s.number {
		return
	}
	if i, ok := slices.BinarySearch(s.refused, c.Number); ok {
		s.refused = slices.Delete(s.refused, i, i+1)
		s.permits = min(s.permits, len(s.refused))
	}
	c.Acked = s.acked
}

// Acknowledgement returns what the object has to know of replies that are not needed any more.
func (s *Session) Acknowledgement() Acknowledgement {
	a := Acknowledgement{Session: s.number, Acked: s.acked}
	s.saying, s.unsaid = true, 0
	for n := s.acked + 1; n <= s.last; n++ {
		if at := &s.ended[n%invoke.MaxOutstanding]; *at != open {
			if *at == unsaid {
				*at, a.first = said, append(a.first, n)
			}
			bit := n - s.acked - 1
			a.Ended = append(a.Ended, make([]byte, int(bit/8)+1-len(a.Ended))...)
			a.Ended[bit/8] |= 1 << (bit % 8)
		}
	}
	return a
}

// Said notes that the object knows an acknowledgement, or that it may not.
func (s *Session) Said(a Acknowledgement, known bool) {
	s.saying = false
	switch {
	case a.Session != s.number:
	case known:
		s.permit(len(a.first))
	default:
		s.kept = true
		for _, n := range a.first {
			if n > s.acked {
				s.ended[n%invoke.MaxOutstanding] = unsaid
				s.unsaid++
			}
		}
	}
}

// Lost forgets a session that has ended. The next command opens another one, with the token.
func (s *Session) Lost(number uint64, token invoke.Token) (lost bool) {
	if number == 0 || s.number != number {
		return false
	}
	s.number, s.token = 0, token
	return true
}

// Idle reports whether the session is open and is to be touched: it was not used for a third of its
// timeout.
func (s *Session) Idle(now time.Time) bool {
	return s.number != 0 && now.Sub(s.used) > s.timeout/3
}

// Touch notes that the session is touched, and returns its number. The step is Say if an
// acknowledgement is to be sent for that.
func (s *Session) Touch(now time.Time) (number uint64, step Step) {
	s.used = now
	if s.kept && !s.saying {
		s.kept = false
		return s.number, Say
	}
	return s.number, Go
}
