package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// Challenge opens a conversation: the process that takes requests says it at once. The request
// authenticates it, and the first message that follows authenticates the request, with the key of
// the two processes (J11).
type Challenge struct {
	PublicKey trust.PublicKey `json:"public_key"` // of the process that takes requests
	Nonce     trust.Nonce     `json:"nonce"`
}

// keyWith returns the key that a joiner and the process that takes its requests share. The joiner
// knows only the public key of that process.
func keyWith(i *trust.Identity, cluster string, shared []byte, self, peer trust.Party) (trust.Key, error) {
	scope := trust.Scope{Cluster: cluster}
	if len(shared) > 0 { // the other process must know it too (J14)
		scope.Key = trust.Digest(trust.KeyOf("squall join 1 ", shared)).String()
	}
	return i.Key(trust.Greet, scope, self, peer)
}

// conversation is one that began with a challenge.
type conversation struct {
	*wire.Conn
	seal func(any) any        // authenticates what is written first; nil: it was written
	heed func(*Message) error // looks at the message that is read first; nil: it was read
}

// maxFirstBytes bounds a challenge.
const maxFirstBytes = 4 << 10

// speak begins a conversation over a connection, in which nothing has been proved.
func speak(conn net.Conn, silence time.Duration) *conversation {
	times := wire.Times{Dial: silence, Silence: deafness * silence, Pulse: silence / beats, Stall: DefaultSilence}
	return &conversation{Conn: wire.New(conn, times, wire.MaxMessageBytes)}
}

// deafness is how many silences end a connection whose core did not end it after one.
const deafness = 2

// say sends a value within a bounded time. A message that says nothing new is a pulse.
func (c *conversation) say(v any) error {
	if m, ok := v.(Message); ok && m.Verb == sayStill {
		return c.Send(wire.Pulse, wire.NewFrame(0))
	}
	if c.seal != nil {
		v, c.seal = c.seal(v), nil
	}
	return c.Say(v)
}

// hear reads a message. A pulse is one that says nothing new.
func (c *conversation) hear(m *Message) error {
	k, bytes, err := c.Next()
	switch {
	case err != nil:
		return err
	case k == wire.Pulse:
		*m = Message{Verb: sayStill}
		return nil
	case k != wire.Message:
		return fmt.Errorf("%w: a frame of kind %d", wire.ErrCorrupt, k)
	}
	if err := wire.Decode(bytes, m); err != nil || c.heed == nil {
		return err
	}
	heed := c.heed
	c.heed = nil
	return heed(m)
}

// challenge asks the caller to prove that it is the process that its request describes, and returns
// the conversation that follows.
func (d *limiter) challenge(c *conversation) (q Request, err error) {
	c.Greet()
	defer c.Greeted()
	asked := Challenge{d.self.PublicKey, trust.NewNonce()}
	if err := c.Say(asked); err != nil {
		return q, err
	}
	if err := c.Hear(&q); err != nil || q.Verb == Inquire { // any process may ask this
		return q, err
	}
	k, err := keyWith(d.identity, q.Cluster, d.shared, trust.Party{PublicKey: d.self.PublicKey}, q.Member.Party())
	if err == nil {
		said := q
		said.MAC = trust.MAC{}
		err = k.Check(q.MAC, trust.Dialer, asked, said)
	}
	if err != nil && (q.Secured || len(d.shared) > 0) {
		err = errors.Join(fmt.Errorf("%w: %w", trust.ErrSecret, err), c.Say(Message{Verb: sayRefuse, Text: trust.ErrSecret.Error()}))
	}
	if err == nil {
		err = trust.CheckCertificate(c.Conn.Conn, q.Member.Certificate)
	}
	if err != nil {
		return q, fmt.Errorf("%s: %w", node(q.Member.ID, q.Member.Addr), err)
	}
	c.seal = func(v any) any {
		m, ok := v.(Message)
		if ok {
			m.MAC = trust.MAC{}
			m.MAC = k.MAC(trust.Listener, q, m)
			return m
		}
		return v
	}
	return q, nil
}

// challenged takes the challenge of a process that was dialed. If the process is known, it is that
// one, or there is no conversation.
func challenged(ctx context.Context, c *conversation, cfg Config, known Met) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	var theirs Challenge
	c.Take(maxFirstBytes)
	err := c.Hear(&theirs)
	c.Take(wire.MaxMessageBytes)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if known != (Met{}) {
		if theirs.PublicKey != known.PublicKey {
			return fmt.Errorf("%s: %w: it is another process", node(known.ID, known.Addr), trust.ErrUnproven)
		}
		if err := trust.CheckCertificate(c.Conn.Conn, known.Certificate); err != nil {
			return fmt.Errorf("%s: %w", node(known.ID, known.Addr), err)
		}
	}
	k, err := keyWith(cfg.Identity, cfg.Cluster, cfg.Shared, cfg.Self.Party(), trust.Party{PublicKey: theirs.PublicKey})
	if err != nil {
		return err
	}
	c.prove(k, theirs, len(cfg.Shared) > 0)
	return nil
}

// prove has requests signed from now on, and checks that answers are to them.
func (c *conversation) prove(k trust.Key, theirs Challenge, secured bool) {
	var said Request
	c.seal = func(v any) any {
		if q, ok := v.(Request); ok {
			q.Secured = secured
			said = q.signed(k, theirs)
			return said
		}
		return v
	}
	c.heed = func(m *Message) error {
		answer := *m
		answer.MAC = trust.MAC{}
		err := k.Check(m.MAC, trust.Listener, said, answer)
		if err != nil && m.Verb == sayRefuse {
			return fmt.Errorf("%w: %w", ErrRefused, trust.ErrSecret)
		}
		return err
	}
}

// signed is a request that proves its Member to the process that sent a challenge.
func (q Request) signed(k trust.Key, c Challenge) Request {
	q.Salt, q.MAC = trust.NewNonce(), trust.MAC{}
	q.MAC = k.MAC(trust.Dialer, c, q)
	return q
}

// Sign is a request of the process that has an identity, for the process that sent a challenge.
func (q Request) Sign(i *trust.Identity, c Challenge) (Request, error) {
	k, err := keyWith(i, q.Cluster, nil, q.Member.Party(), trust.Party{PublicKey: c.PublicKey})
	if err != nil {
		return q, err
	}
	return q.signed(k, c), nil
}

// prove fills in what this process proves itself by.
func (c *Config) prove() (err error) {
	if c.Identity == nil {
		c.Identity = trust.NewIdentity()
	}
	c.Self.PublicKey = c.Identity.PublicKey()
	if c.Self.Certificate.IsZero() {
		host, _, _ := net.SplitHostPort(c.Self.Addr)
		c.Self.Certificate, err = trust.OwnCertificate(c.TLS, host)
	}
	return err
}

// fingerprint is the same whichever member tells it, and tells a node's processes apart without
// giving the incarnation away.
func fingerprint(m views.Member) trust.Digest { return m.Party().Fingerprint() }
