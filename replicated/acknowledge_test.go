package replicated

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// scripted is a client that answers each request by itself.
type scripted struct {
	asker
	answer  func(r *client.Request) error
	asked   []client.Ask
	rested  int
	waiting func() // what happens while a caller waits
	woken   bool   // changed was called
}

func (c *scripted) now() time.Time                      { return time.Unix(1, 0) }
func (c *scripted) changed(*remote)                     { c.woken = true }
func (c *scripted) event(ClientEvent)                   {}
func (c *scripted) rest(context.Context, time.Duration) { c.rested++ }
func (c *scripted) wait(_ context.Context, o *remote)   { o.unlocked(c.waiting) }

func (c *scripted) ask(_ context.Context, _ *remote, _ func([]byte) error, parts ...[]byte) error {
	r, err := client.Parse(parts[0])
	if err != nil {
		return err
	}
	c.asked = append(c.asked, r.Ask)
	return c.answer(&r)
}

// fullSession returns an object with a session of a client, which calls its command 2 while the
// answer to the command 1 is awaited, and command 3 has ended: the replies of its session are to be
// acknowledged before the object executes a further command.
func fullSession(c *scripted) *remote {
	o := &remote{client: c, name: "accounts"}
	s := client.NewSession(time.Minute, invoke.Token{1})
	s.Begin(c.now())
	s.Opened(7)
	s.Begin(c.now())
	second, _ := s.Begin(c.now())
	s.End(second)
	o.session.Session, o.session.room.L = s, &o.session.Mutex
	return o
}

// TestAnAcknowledgementThatFailsDoesNotFailTheCommandThatWaitsForIt has the first acknowledgements
// fail at the members.
func TestAnAcknowledgementThatFailsDoesNotFailTheCommandThatWaitsForIt(t *testing.T) {
	const failures = 3
	said := 0
	c := &scripted{}
	c.answer = func(r *client.Request) error {
		switch {
		case r.Ask == client.Acknowledge:
			if said++; said <= failures {
				return errors.New("the member is busy")
			}
		case said <= failures:
			return invoke.ErrFull
		}
		return nil
	}
	o := fullSession(c)
	if err := o.ordered(t.Context(), "op", invoke.Encoded(nil), client.Request{Ask: client.Command}, exchanges.Get().(*exchange)); err != nil {
		t.Fatal(err)
	}
	var want []client.Ask
	for range failures + 1 {
		want = append(want, client.Command, client.Acknowledge)
	}
	if want = append(want, client.Command); !slices.Equal(c.asked, want) || c.rested != failures {
		t.Errorf("the members were asked for %v, in place of %v, and the client rested %d times", c.asked, want, c.rested)
	}
}

// TestAnAcknowledgementThatFailsIsTriedUntilTheCallEnds also has a failure that lasts: then the
// command fails as it does by itself.
func TestAnAcknowledgementThatFailsIsTriedUntilTheCallEnds(t *testing.T) {
	busy, gone := errors.New("the member is busy"), errors.New("nobody has the object")
	for _, last := range []error{nil, gone} {
		ctx, cancel := context.WithCancelCause(t.Context())
		tries := 0
		c := &scripted{}
		c.answer = func(r *client.Request) error {
			if r.Ask == client.Command {
				if tries == 2 && last != nil {
					return last
				}
				return invoke.ErrFull
			}
			if tries++; tries == 3 {
				cancel(errors.New("the caller gave up"))
			}
			return busy
		}
		err := fullSession(c).ordered(ctx, "op", invoke.Encoded(nil), client.Request{Ask: client.Command}, exchanges.Get().(*exchange))
		if want := context.Cause(ctx); err == nil || errors.Is(err, busy) || last != nil && !errors.Is(err, gone) || last == nil && (want == nil || !errors.Is(err, want)) {
			t.Errorf("after %d tries: %v", tries, err)
		}
		cancel(nil)
	}
}

// TestACallThatWaitsForANumberLearnsThatTheSessionHasEnded has no number free. A request that keeps
// the session learns of its end.
func TestACallThatWaitsForANumberLearnsThatTheSessionHasEnded(t *testing.T) {
	opens := errors.New("the next session is being opened")
	c := &scripted{}
	c.answer = func(r *client.Request) error {
		if r.Ask == client.Open {
			return opens
		}
		return ErrSessionEnded
	}
	o := fullSession(c)
	o.timeout, o.newToken = time.Minute, func() invoke.Token { return invoke.Token{2} }
	for range invoke.MaxOutstanding - 2 {
		if _, err := o.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	o.session.Touch(c.now()) // the next one acknowledges nothing
	c.waiting = func() {
		c.woken = false
		if o.touch(t.Context()); !c.woken {
			t.Fatal("nothing wakes the call")
		}
	}
	if _, err := o.begin(t.Context()); !errors.Is(err, opens) || !slices.Equal(c.asked, []client.Ask{client.Touch, client.Open}) {
		t.Errorf("the members were asked for %v: %v", c.asked, err)
	}
}
