package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

var start = time.Unix(1_700_000_000, 0)

// TestRC1RC2RC3NumbersAreForOneCommandAndAcknowledgedInOrder begins and ends commands at random,
// loses sessions, and follows what may be acknowledged in a model.
func TestRC1RC2RC3NumbersAreForOneCommandAndAcknowledgedInOrder(t *testing.T) {
	seed := testutil.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := NewSession(time.Second, invoke.Token{1})
	var open []CommandID
	over := map[uint64]bool{} // numbers of the session that have ended
	last, low := uint64(0), uint64(0)
	sessions, waited := uint64(0), 0
	begin := func() {
		c, step := s.Begin(start)
		switch step {
		case OpenFirst:
			if _, again := s.Begin(start); again != Wait {
				t.Fatal("a session is opened twice at the same time")
			}
			sessions++
			s.Opened(sessions)
			clear(over)
			last, low = 0, 0
		case Wait:
			waited++
		case Go:
			if c.Session != sessions || c.Number <= last {
				t.Fatalf("RC1: number %d of session %d is given after %d", c.Number, c.Session, last)
			}
			last = c.Number
			for over[low+1] {
				low++
			}
			if c.Acked > low {
				t.Fatalf("RC2: %d is acknowledged, and %d has not ended", c.Acked, low+1)
			}
			if c.Number-c.Acked > invoke.MaxOutstanding {
				t.Fatalf("RC3: number %d, and %d is acknowledged", c.Number, c.Acked)
			}
			open = append(open, c)
		}
	}
	end := func() {
		i := rnd.IntN(len(open))
		c := open[i]
		open = append(open[:i], open[i+1:]...)
		s.End(c)
		s.End(c) // once more is nothing
		if c.Session == sessions {
			over[c.Number] = true
		}
	}
	for range 100 {
		most := 1 + rnd.IntN(10)
		if rnd.IntN(10) == 0 {
			most = 2 * invoke.MaxOutstanding // one that waits holds the others back
		}
		for range 3000 {
			if len(open) == 0 || len(open) < most && rnd.IntN(2) == 0 {
				begin()
			} else {
				end()
			}
		}
		for len(open) > 0 && rnd.IntN(2) == 0 {
			end()
		}
		if s.Lost(s.number+1, invoke.Token{2}) {
			t.Fatal("another session was lost, and this one is forgotten")
		}
		if rnd.IntN(4) == 0 {
			s.Lost(s.number, invoke.Token{byte(rnd.IntN(256))})
		}
	}
	open = open[:0]
	for range invoke.MaxOutstanding + 2 {
		begin()
	}
	if waited == 0 || sessions < 2 {
		t.Errorf("%d commands waited, %d sessions were opened", waited, sessions)
	}
}

func TestRC4ALinkThatFailsIsDroppedOnce(t *testing.T) {
	m := NewMembers(3, time.Second)
	a, b := m.Begin(start, 1), m.Begin(start, 1)
	if a.Number != b.Number || a.Member != 0 || b.Member != 0 {
		t.Fatalf("links %v and %v", a, b)
	}
	if !m.End(a, true) || m.Current() != 1 {
		t.Fatal("a link that failed is still used")
	}
	c := m.Begin(start, 1)
	if c.Number == a.Number || c.Member != 1 {
		t.Fatalf("RC4: the link %v follows %v", c, a)
	}
	if m.End(b, true) || m.Current() != 1 {
		t.Fatal("a link that was dropped before costs the next one")
	}
	late := func(now time.Time) bool {
		_, dropped := m.Late(now)
		return dropped
	}
	if late(start.Add(time.Second)) {
		t.Fatal("a member is late after its time")
	}
	if !late(start.Add(time.Second+1)) || m.Current() != 2 || late(start.Add(time.Hour)) {
		t.Fatal("a member that does not answer is still asked")
	}
	d := m.Begin(start, 1)
	if m.End(d, false) || late(start.Add(time.Hour)) || m.Begin(start, 1).Number != d.Number {
		t.Fatal("a link that works was dropped")
	}
	old := d
	if !m.Replace(2, 1) || m.Replace(2, 1) || m.Current() != 1 {
		t.Fatal("the link to a member of before is still in use")
	}
	if d = m.Begin(start, 1); d.Number == old.Number || m.End(old, true) || m.Begin(start, 1).Number != d.Number || d.Member != 1 {
		t.Fatal("RC4: a link to a member of before costs the one to a member of now")
	}
	m.Replace(3, 2)
	if m.Pause(1) != 0 || m.Pause(2) != 0 || m.Pause(3) == 0 || m.Pause(6) == 0 {
		t.Error("a client rests after each round of all members, and not within one")
	}
}

func TestASessionIsTouchedWhenItIsIdle(t *testing.T) {
	s := NewSession(3*time.Second, invoke.Token{1})
	if s.Idle(start) {
		t.Fatal("a session that is not open is idle")
	}
	s.Begin(start)
	s.Opened(7)
	if c, step := s.Begin(start); step != Go || c != (CommandID{7, 1, 0}) {
		t.Fatalf("%v, step %d", c, step)
	}
	if s.Idle(start.Add(time.Second)) || !s.Idle(start.Add(time.Second+1)) {
		t.Error("idle after a third of the timeout, and not before")
	}
	if n, _ := s.Touch(start.Add(2 * time.Second)); n != 7 || s.Idle(start.Add(3*time.Second)) {
		t.Error("a session that was touched is idle")
	}
}

func TestRC5AShardIsLookedForAfterALinkFailed(t *testing.T) {
	first := func(int) int { return 0 }
	last := func(n int) int { return n - 1 }
	r := NewRoute(nil, time.Second)
	if !r.Stale() {
		t.Fatal("a route without places is used")
	}
	if ok, _ := r.Found(nil, first); ok || !r.Stale() {
		t.Fatal("a shard without members was found")
	}
	if ok, dropped := r.Found([]string{"a", "b"}, last); !ok || dropped || r.Stale() || r.Place() != "b" {
		t.Fatalf("at %s; stale %v", r.Place(), r.Stale())
	}
	l := r.Begin(start, 1)
	if !r.End(l, true) {
		t.Fatal("a link that failed is still in use")
	}
	if r.Failed(); !r.Stale() || r.Place() != "a" {
		t.Fatalf("RC5: the shard is asked at %s after its member failed; stale %v", r.Place(), r.Stale())
	}
	r.Begin(start, 1)
	if ok, dropped := r.Found([]string{"a", "b"}, last); !ok || dropped || r.Stale() || r.Place() != "a" {
		t.Fatal("a link to a member that still has the shard was dropped")
	}
	r.Failed()
	if ok, dropped := r.Found([]string{"c"}, last); !ok || !dropped || r.Stale() || r.Place() != "c" {
		t.Fatal("a link to a member that left the shard is still in use")
	}
	if r = NewRoute([]string{"a"}, time.Second); r.Stale() || r.Place() != "a" {
		t.Fatal("a route with a place is not used")
	}
}

// Requests come and go on a link at random, some of which are never answered. The link is late
// exactly when the time of one of them is over.
func TestRC6EachRequestOfALinkIsLateByItself(t *testing.T) {
	seed := testutil.Seed(t)
	if err := lateByThemselves(seed); err != nil {
		t.Error(err)
	}
}

func lateByThemselves(seed uint64) error {
	rnd := rand.New(rand.NewPCG(seed, 0))
	const count, timeout = 3, time.Second
	m, now := NewMembers(count, timeout), start
	open := map[Link]time.Time{} // when each is late
	var order []Link
	dropped := 0
	for range 5000 {
		now = now.Add(time.Duration(rnd.Int64N(int64(timeout / 10))))
		due := false
		for _, late := range open {
			due = due || now.After(late)
		}
		if _, late := m.Late(now); late != due {
			return fmt.Errorf("RC6: late %v, and a request whose time is over waits: %v", late, due)
		} else if late {
			dropped++
			clear(open)
			order = order[:0]
		}
		switch {
		case rnd.IntN(3) > 0:
			attempt := 1 + rnd.IntN(10*count)
			l := m.Begin(now, attempt)
			if _, taken := open[l]; taken {
				return fmt.Errorf("two requests are %v", l)
			}
			open[l] = now.Add(timeout << min((attempt-1)/count, 3))
			order = append(order, l)
		case len(order) > 0 && rnd.IntN(50) > 0: // the latest: the others wait
			l := order[len(order)-1]
			order = order[:len(order)-1]
			delete(open, l)
			m.End(l, false)
		}
	}
	if dropped == 0 {
		return errors.New("no link was late")
	}
	return nil
}

func TestAMemberIsProbedForPatientRequests(t *testing.T) {
	m := NewMembers(2, time.Second)
	l := m.BeginPatient(start)
	if _, late := m.Late(start.Add(time.Hour)); late {
		t.Error("a patient request is late")
	}
	if m.Probe(start.Add(time.Second/2-1)) || !m.Probe(start.Add(time.Second/2)) || m.Probe(start.Add(time.Second-1)) {
		t.Error("a member is probed after half of its time, and not before")
	}
	b := m.Begin(start, 1)
	if m.Probe(start.Add(time.Hour)) {
		t.Error("a member is probed while another request waits for it")
	}
	if m.End(b, false); !m.Probe(start.Add(time.Hour)) {
		t.Error("a member is not probed again")
	}
	if m.End(l, false); m.Probe(start.Add(2 * time.Hour)) {
		t.Error("a member is probed for nothing")
	}
}
