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
)

// Bounds of the conversations about the status. A member answers a question within statusWithin, or says that its loop is blocked.
const (
	maxStatusCallers       = 16
	maxStatusCallersOfAddr = 8
	maxStatusQuestionBytes = 256
	statusWithin           = 3 * time.Second
	freshStatusWithin      = 30 * time.Second
)

// statusQuestion asks for a Status.
type statusQuestion struct {
	Fresh bool `json:"fresh"` // with a hash of the states that is taken now
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
	var q statusQuestion
	if c.Hear(&q) != nil {
		return
	}
	c.Greeted()
	within := statusWithin
	if q.Fresh {
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
	stop := c.Pulses()
	status, err := s.group.status(ctx, q.Fresh)
	stop()
	a := statusAnswer{Status: &status}
	if err != nil {
		a = statusAnswer{Error: err.Error()}
	}
	_ = c.Say(a) // the other side may have hung up
}

func (s *statusServer) close() { s.callers.HangUp() }

// StatusConfig says how AskStatus reaches a member.
type StatusConfig struct {
	TLS *tls.Config // for a group with TLS
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
	c := wire.New(conn, wire.Times{}, wire.MaxMessageBytes)
	if err = c.Say(statusQuestion{cfg.Fresh}); err == nil {
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
