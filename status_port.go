package squall

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/trust"
)

// Bounds of the conversations about the status. A member answers a question within statusWithin, or
// says that its loop is blocked.
const (
	maxStatusCallers       = 16
	maxStatusCallersOfAddr = 8
	maxStatusQuestionBytes = 256
	maxStatusNonceBytes    = 256
	statusWithin           = 3 * time.Second
	freshStatusWithin      = 30 * time.Second
)

// statusNonce opens a conversation: the member sends it.
type statusNonce struct {
	Nonce trust.Nonce `json:"nonce"`
}

// statusQuestion asks for a Status.
type statusQuestion struct {
	Fresh bool `json:"fresh"` // with a hash of the states that is taken now
	// MAC is of the nonce and the question, under the key of Config.Secret: a question that was
	// recorded is of no use (J14).
	MAC trust.MAC `json:"mac,omitzero"`
}

// errNoSecret is the answer to a process that does not know the secret of a group that has one.
var errNoSecret = errors.New("the group has a secret: set StatusConfig.Secret, or --secret-file, to the members' Config.Secret")

// statusKey is the key that follows from a secret.
func statusKey(secret []byte) trust.Key { return trust.KeyOf("squall status 1 ", secret) }

// proved is a question with the proof that its sender knows a secret, if there is one.
func (q statusQuestion) proved(secret []byte, n statusNonce) statusQuestion {
	if len(secret) > 0 {
		q.MAC = statusKey(secret).MAC(trust.Dialer, n, q)
	}
	return q
}

// admits reports whether a question proves the secret of a group, if the group has one.
func (q statusQuestion) admits(secret []byte, n statusNonce) error {
	shown := q.MAC
	q.MAC = trust.MAC{}
	if len(secret) > 0 && statusKey(secret).Check(shown, trust.Dialer, n, q) != nil {
		return errNoSecret
	}
	return nil
}

// statusAnswer is the answer: a status, or the reason why there is none.
type statusAnswer struct {
	Status *Status `json:"status,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// statusServer answers processes that ask for the status of this one.
type statusServer struct {
	group   *Group
	callers *wire.Callers
}

func newStatusServer(g *Group) *statusServer {
	return &statusServer{g, wire.NewCallers(maxStatusCallers, maxStatusCallers, maxStatusCallersOfAddr)}
}

// serve is the handler of port.KindStatus: one question, one answer.
func (s *statusServer) serve(conn net.Conn) {
	defer conn.Close()
	if _, ok := s.callers.Enter(conn); !ok {
		return
	}
	defer s.callers.Leave(conn)
	c := wire.New(conn, wire.Times{}, maxStatusQuestionBytes)
	c.Greet()
	n := statusNonce{trust.NewNonce()}
	var q statusQuestion
	if c.Say(n) != nil || c.Hear(&q) != nil {
		return
	}
	if err := q.admits(s.group.cfg.Secret, n); err != nil {
		_ = c.Say(statusAnswer{Error: err.Error()})
		return
	}
	c.Greeted()
	stop := c.Pulses()
	a := s.answer(q.Fresh)
	stop()
	_ = c.Say(a) // the other side may have hung up
}

func (s *statusServer) answer(fresh bool) statusAnswer {
	within := statusWithin
	if fresh {
		within = freshStatusWithin
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), within, fmt.Errorf("no answer in %v", within))
	defer cancel()
	asking := make(chan struct{})
	defer close(asking)
	go func() {
		select {
		case <-s.group.Done(): // nothing may wait for an answer while the group is released
			cancel()
		case <-asking:
		}
	}()
	status, err := s.group.status(ctx, fresh)
	if err != nil {
		return statusAnswer{Error: err.Error()}
	}
	return statusAnswer{Status: &status}
}

func (s *statusServer) close() { s.callers.HangUp() }

// StatusConfig says how AskStatus reaches a member.
type StatusConfig struct {
	TLS    *tls.Config // for a group with TLS
	Secret []byte      // the Config.Secret of the members, for a group that has one
	// Fresh has all members take a hash of their states first, at one position of the order.
	Fresh bool
}

// AskStatus asks the member that listens at host:port for its Status, until ctx ends.
func AskStatus(ctx context.Context, addr string, cfg StatusConfig) (*Status, error) {
	s, err := askStatus(ctx, addr, cfg)
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", addr, err)
	}
	return s, nil
}

func askStatus(ctx context.Context, addr string, cfg StatusConfig) (*Status, error) {
	conn, err := port.Dial(ctx, addr, port.KindStatus, cfg.TLS)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	c := wire.New(conn, wire.Times{}, maxStatusNonceBytes)
	var n statusNonce
	if err = c.Hear(&n); err == nil {
		err = c.Say(statusQuestion{Fresh: cfg.Fresh}.proved(cfg.Secret, n))
	}
	if err == nil {
		c.Take(wire.MaxMessageBytes)
		var a statusAnswer
		if err = c.Hear(&a); err == nil {
			return a.Status, a.fault()
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, err
}

func (a statusAnswer) fault() error {
	switch {
	case a.Error != "":
		return errors.New(wire.Clip(a.Error, 1024))
	case a.Status == nil:
		return errors.New("the answer has no status")
	}
	return nil
}
