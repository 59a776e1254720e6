package join

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/views"
)

// dialer is a Joiner on real connections.
type dialer struct {
	*sessions
	config Config
	core   *Joiner // guarded by sessions.mu
	nonce  string

	ctx     context.Context // of the dialing
	cancel  context.CancelFunc
	dials   map[Ticket]context.CancelFunc // guarded by sessions.mu
	ended   bool                          // the same: decided was closed
	decided chan struct{}                 // closed when the core has come to an end
	handed  chan *conversation            // the conversation with the first member, once the first view was offered in it
}

func newDialer(c Config) *dialer {
	j := &dialer{
		sessions: newSessions(newLimiter(c, requestsPerMember*c.Expect+views.MaxMembers)), config: c, nonce: rand.Text(),
		dials: map[Ticket]context.CancelFunc{}, decided: make(chan struct{}), handed: make(chan *conversation, 1),
	}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	j.core = NewJoiner(c.applicant(j.nonce))
	j.tick, j.next, j.dial, j.after, j.hung = j.core.Tick, j.core.Next, j.connect, j.notice, j.undial
	return j
}

// apply asks until this process is a member, has been offered the first view, or is refused.
func apply(ctx context.Context, c Config) (*Outcome, error) {
	j := newDialer(c)
	c.Port.Handle(port.KindControl, j.handler(j.redirect))
	j.step(j.core.Start)
	var err error
	select {
	case <-j.decided:
		err = j.core.Err()
	case <-ctx.Done():
		j.mu.Lock()
		err = j.core.GivenUp(context.Cause(ctx))
		j.mu.Unlock()
	}
	if err != nil {
		c.Port.Handle(port.KindControl, nil)
		j.abandon()
		return nil, err
	}
	if v := j.core.View(); v != nil {
		return &Outcome{View: v, config: c, joiner: j}, nil
	}
	v, _ := j.core.Offer()
	conn := <-j.handed
	j.cancel()
	j.finish() // processes that take this process for a member are still answered
	return &Outcome{View: v, Session: newMembership(j.limiter, c.Self, conn, v), config: c, joiner: j}, nil
}

// abandon ends everything.
func (j *dialer) abandon() {
	j.stop()
	select {
	case conn := <-j.handed:
		conn.Close()
	default:
	}
}

// stop ends what goes on, except for a conversation that was handed over.
func (j *dialer) stop() {
	j.cancel()
	j.sessions.stop()
}

// redirect answers a process that sent its request here although this process is no member. The
// sender may be this process itself, if one of the addresses to ask is its own without its knowing.
// The nonce of the request identifies the sender. The id and the address do not: another process
// may have the same ones by mistake, and then both would found a group.
func (j *dialer) redirect(conn *conversation, q Request) {
	answer := Message{Verb: sayRedirect, Addr: j.config.Join[0]}
	if q.Nonce == j.nonce {
		j.step(func(time.Duration) Effects {
			j.core.Itself()
			return Effects{}
		})
	}
	if q.Verb != Apply {
		answer = saying(sayLater, "%s is no member yet", node(j.config.Self.ID, j.config.Self.Addr))
	} else if q.Member.ID == j.config.Self.ID && q.Member.Addr == j.config.Self.Addr {
		answer = saying(sayLater, "%s asked itself, or two processes have its id and address",
			node(q.Member.ID, q.Member.Addr))
	}
	if err := conn.say(answer); err != nil {
		j.reject(conn, err)
	}
}

// connect dials in the background.
func (j *dialer) connect(d Dial) {
	ctx, cancel := context.WithTimeout(j.ctx, j.silence)
	j.dials[d.Ticket] = cancel
	j.writers.Go(func() {
		raw, err := port.Dial(ctx, d.Addr, port.KindControl, j.config.TLS)
		var conn *conversation
		if err == nil {
			conn = speak(raw, j.silence)
			if err = challenged(ctx, conn, j.config, d.Member); err != nil {
				raw.Close()
			}
		}
		cancel()
		if err != nil {
			j.step(func(now time.Duration) Effects {
				delete(j.dials, d.Ticket)
				return j.core.Gone(now, d.Ticket, err)
			})
			return
		}
		j.connected(d.Ticket, conn)
	})
}

// undial gives up a conversation that does not stand yet.
func (j *dialer) undial(t Ticket) {
	if cancel := j.dials[t]; cancel != nil {
		cancel()
		delete(j.dials, t)
	}
}

func (j *dialer) connected(t Ticket, conn *conversation) {
	var l *writer
	j.step(func(now time.Duration) Effects {
		if j.dials[t] == nil {
			return Effects{}
		}
		if _, ok := j.dialed.Enter(conn.Conn.Conn); !ok {
			return Effects{}
		}
		delete(j.dials, t)
		l = j.begin(t, conn)
		return j.core.Connected(now, t)
	})
	if l == nil {
		conn.Close()
		return
	}
	go j.converse(t, l)
}

// converse is the reading side of a conversation.
func (j *dialer) converse(t Ticket, l *writer) {
	defer j.dialed.Leave(l.conn.Conn.Conn)
	j.read(t, l,
		func(now time.Duration, m Message) Effects { return j.core.Hear(now, t, m) },
		func(now time.Duration, err error) Effects { return j.core.Gone(now, t, gone(err)) })
	if l.keep {
		j.handed <- l.conn
		return
	}
	l.conn.Close()
}

// notice looks whether the core has come to an end.
func (j *dialer) notice() {
	if j.ended || !j.core.decided() {
		return
	}
	j.ended = true
	if v, t := j.core.Offer(); v != nil {
		j.lines[t].keep = true
		j.end(t)
	}
	close(j.decided)
}

// Find asks all addresses that this process knows whether there is a group that works, and returns
// that of a member.
func Find(ctx context.Context, c Config) (addr string, ok bool) {
	if c.silence == 0 {
		c.silence = DefaultSilence
	}
	return formed(ctx, c)
}

// inquiry is how long the first member waits for the others' answers before it bootstraps a group.
const inquiry = time.Second

// formed asks the other addresses, all at once, whether there is a group already. The first member
// would bootstrap a second one, if it was started again.
func formed(ctx context.Context, c Config) (addr string, ok bool) {
	others := slices.DeleteFunc(slices.Clone(c.Join), func(addr string) bool { return addr == c.Self.Addr })
	ctx, cancel := context.WithTimeout(ctx, min(inquiry, c.silence))
	defer cancel()
	answers := make(chan string, len(others))
	for _, addr := range others {
		go func() {
			if inquire(ctx, c, addr) != nil {
				addr = ""
			}
			answers <- addr
		}()
	}
	for range others { // the channel holds all answers: no goroutine blocks on an answer after the first member's
		if addr := <-answers; addr != "" {
			return addr, true
		}
	}
	return "", false
}

// inquire returns nil if a member of a group answers.
func inquire(ctx context.Context, c Config, addr string) error {
	raw, err := port.Dial(ctx, addr, port.KindControl, c.TLS)
	if err != nil {
		return err
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	conn := speak(raw, c.silence)
	nonce := rand.Text()
	var theirs Challenge // of no use to a process that only inquires
	if err := conn.Hear(&theirs); err != nil {
		return err
	}
	if err := conn.say(Request{Verb: Inquire, Cluster: c.Cluster, Member: c.Self, Group: c.Group, Nonce: nonce}); err != nil {
		return err
	}
	var m Message
	if err := conn.Hear(&m); err != nil {
		return err
	}
	if m.Verb != sayMember {
		return fmt.Errorf("%w: %q", errNoGroup, clip(string(m.Verb)))
	}
	if c.Group != "" && !(m.Group == c.Group && c.Secret.Verify(proofOfMember, []byte(nonce), m.Proof)) {
		return views.OtherHistory(addr, c.Group, clip(m.Group))
	}
	return nil
}

// errNoGroup says that a process answered, and is no member.
var errNoGroup = errors.New("no member of a group")
