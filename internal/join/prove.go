package join

import (
	"context"
	"fmt"
	"net"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/trust"
	"github.com/squall-go/squall/views"
)

// Challenge opens a conversation: the process that takes requests says it at once. The request authenticates it, and the first message that
// follows authenticates the request, with the key of the two processes (J11).
type Challenge struct {
	PublicKey trust.PublicKey `json:"public_key"` // of the process that takes requests
	Nonce     trust.Nonce     `json:"nonce"`
}

// keyWith is the key that a process and the one that takes its requests have in common. The joiner knows no more of that one than its
// public key.
func keyWith(i *trust.Identity, cluster string, self, peer trust.Party) (trust.Key, error) {
	return i.Key(trust.Greet, trust.Scope{Cluster: cluster}, self, peer)
}

// spoken is a conversation that began with a challenge.
type spoken struct {
	net.Conn
	seal func(any) any        // authenticates what is written first; nil: it was written
	heed func(*Message) error // looks at what is read first; nil: it was read
}

// CloseWrite says that nothing more will be written.
func (s *spoken) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// sealed is a value as it is written.
func sealed(conn net.Conn, v any) any {
	if s, ok := conn.(*spoken); ok && s.seal != nil {
		v, s.seal = s.seal(v), nil
	}
	return v
}

// readMessage reads a message of a conversation.
func readMessage(conn net.Conn, m *Message) error {
	if err := port.ReadMessage(conn, m); err != nil {
		return err
	}
	s, ok := conn.(*spoken)
	if !ok || s.heed == nil {
		return nil
	}
	heed := s.heed
	s.heed = nil
	return heed(m)
}

// challenge asks the caller to prove that it is the process that its request describes, and returns the conversation that follows.
func (d *desk) challenge(conn net.Conn) (net.Conn, Request, error) {
	c := Challenge{d.self.PublicKey, trust.NewNonce()}
	if err := write(conn, c); err != nil {
		return conn, Request{}, err
	}
	q, err := d.readRequest(conn)
	if err != nil || q.Verb == Inquire { // that is anybody's to know
		return conn, q, err
	}
	k, err := keyWith(d.identity, q.Cluster, trust.Party{PublicKey: d.self.PublicKey}, q.Member.Party())
	if err == nil {
		said := q
		said.MAC = trust.MAC{}
		err = k.Check(q.MAC, trust.Dialer, c, said)
	}
	if err == nil {
		err = trust.CheckCertificate(conn, q.Member.Certificate)
	}
	if err != nil {
		return conn, q, fmt.Errorf("%s: %w", node(q.Member.ID, q.Member.Addr), err)
	}
	return &spoken{Conn: conn, seal: func(v any) any {
		m, ok := v.(Message)
		if ok {
			m.MAC = trust.MAC{}
			m.MAC = k.MAC(trust.Listener, q, m)
			return m
		}
		return v
	}}, q, nil
}

// challenged takes the challenge of a process that was dialed, and returns the conversation that follows. If the process is known, it is
// that one, or there is none.
func challenged(ctx context.Context, conn net.Conn, c Config, known Met) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	var theirs Challenge
	err := port.ReadMessage(conn, &theirs)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if known != (Met{}) {
		if theirs.PublicKey != known.PublicKey {
			return nil, fmt.Errorf("%s: %w: it is another process", node(known.ID, known.Addr), trust.ErrUnproven)
		}
		if err := trust.CheckCertificate(conn, known.Certificate); err != nil {
			return nil, fmt.Errorf("%s: %w", node(known.ID, known.Addr), err)
		}
	}
	k, err := keyWith(c.Identity, c.Cluster, c.Self.Party(), trust.Party{PublicKey: theirs.PublicKey})
	if err != nil {
		return nil, err
	}
	var said Request
	return &spoken{
		Conn: conn,
		seal: func(v any) any {
			if q, ok := v.(Request); ok {
				said = q.signed(k, theirs)
				return said
			}
			return v
		},
		heed: func(m *Message) error {
			answer := *m
			answer.MAC = trust.MAC{}
			return k.Check(m.MAC, trust.Listener, said, answer)
		},
	}, nil
}

// signed is a request that proves its Member to the process that sent a challenge.
func (q Request) signed(k trust.Key, c Challenge) Request {
	q.Salt, q.MAC = trust.NewNonce(), trust.MAC{}
	q.MAC = k.MAC(trust.Dialer, c, q)
	return q
}

// Sign is a request of the process that has an identity, for the process that sent a challenge.
func (q Request) Sign(i *trust.Identity, c Challenge) (Request, error) {
	k, err := keyWith(i, q.Cluster, q.Member.Party(), trust.Party{PublicKey: c.PublicKey})
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

// fingerprint is the same whichever member tells it, and tells a node's processes apart without giving the incarnation away.
func fingerprint(m views.Member) trust.Digest { return m.Party().Fingerprint() }
