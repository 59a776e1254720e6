package client

import (
	"time"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// Session is a client's session with one object.
type Session struct {
	timeout time.Duration
	token   machine.Token
	opening bool
	number  uint64 // 0: it is not open
	last    uint64 // number of the last command
	acked   uint64 // all up to here have ended
	ended   [machine.MaxOutstanding]bool
	used    time.Time
}

// Command is what a request says of a command.
type Command struct {
	Session uint64
	Number  uint64
	Acked   uint64 // replies of numbers up to here are not needed any more
}

// Step is what comes before a command.
type Step uint8

// What comes before a command.
const (
	Go   Step = iota // nothing
	Open             // the session is to be opened, and then Opened called
	Wait             // something else of the session ends first
)

// NewSession returns a session that is not open. It lives as long as it is used once in every timeout. No other session
// has its token.
func NewSession(timeout time.Duration, token machine.Token) Session {
	return Session{timeout: timeout, token: token}
}

// Token returns what stands for the session while it is being opened.
func (s *Session) Token() machine.Token { return s.token }

// Number returns the number of the session, or 0 if it is not open.
func (s *Session) Number() uint64 { return s.number }

// Begin gives a command a number (RC1), if the step is Go.
func (s *Session) Begin(now time.Time) (Command, Step) {
	switch {
	case s.number == 0 && !s.opening:
		s.opening = true
		return Command{}, Open
	case s.number == 0 || s.last >= s.acked+machine.MaxOutstanding: // RC3
		return Command{}, Wait
	}
	s.last++
	s.used = now
	return Command{s.number, s.last, s.acked}, Go
}

// Opened takes the number of the session, or 0 if it could not be opened.
func (s *Session) Opened(number uint64) {
	s.opening = false
	s.number, s.last, s.acked = number, 0, 0
	clear(s.ended[:])
}

// End notes that a command needs no answer any more (RC2).
func (s *Session) End(c Command) {
	if c.Session != s.number || c.Number <= s.acked || c.Number > s.last {
		return
	}
	s.ended[c.Number%machine.MaxOutstanding] = true
	if mutant.Enabled && mutant.On(mutant.EarlyAcknowledged) {
		s.acked = max(s.acked, c.Number)
	}
	for s.acked < s.last && s.ended[(s.acked+1)%machine.MaxOutstanding] {
		s.acked++
		s.ended[s.acked%machine.MaxOutstanding] = false
	}
}

// Lost forgets a session that has ended. The next command opens another one, with the token.
func (s *Session) Lost(number uint64, token machine.Token) (lost bool) {
	if number == 0 || s.number != number {
		return false
	}
	s.number, s.token = 0, token
	return true
}

// Idle reports whether the session is open and is to be touched: it was not used for a third of its timeout.
func (s *Session) Idle(now time.Time) bool {
	return s.number != 0 && now.Sub(s.used) > s.timeout/3
}

// Touch notes that the session is touched, and returns its number.
func (s *Session) Touch(now time.Time) (number uint64) {
	s.used = now
	return s.number
}
