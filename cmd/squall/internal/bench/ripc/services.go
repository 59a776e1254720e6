package ripc

import (
	"context"
	"encoding/binary"

	"github.com/squall-go/squall/ripc"
)

// services carry messages by package ripc.
type services struct {
	spec     spec
	endpoint *ripc.Endpoint
	service  *ripc.Service
	to       *ripc.Remote
	body     []byte
	ctx      context.Context
	cancel   context.CancelFunc
	others   []*services // other clients in this process: busy ones first, then idle ones
	long     *longs
}

func (s *services) open(id ripc.ID) (err error) {
	cfg := ripc.Config{Resolver: ripc.OneHost(s.spec.Domain), Transport: ripc.SHM}
	if s.spec.Fabric == "tcp" {
		cfg.Transport, cfg.Addr = ripc.TCP, "127.0.0.1:0"
	}
	if s.spec.Asleep {
		cfg.MaxSpin = -1
	}
	if s.spec.Load == gets {
		cfg.RingBytes = httpRing
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.spec.isLong() || s.spec.Beside {
		s.long = newLongs(s.spec)
	}
	s.body = make([]byte, s.spec.Size)
	if s.endpoint, err = ripc.Open(s.ctx, cfg); err != nil {
		return err
	}
	s.service, err = s.endpoint.Register(s.ctx, id)
	return err
}

func (s *services) listen() (string, error) {
	if err := s.open("server"); err != nil || s.long == nil {
		return "", err
	}
	return "", s.long.listen(s.ctx, s.endpoint)
}

func (s *services) connect(ctx context.Context, _ string) error {
	if err := s.open(""); err != nil {
		return err
	}
	s.to = s.service.To("server")
	if err := s.to.Connect(ctx); err != nil || s.long == nil {
		return err
	}
	if err := s.long.connect(ctx, s.endpoint, s.service); err != nil {
		return err
	}
	if s.spec.Beside {
		s.long.start()
	}
	return nil
}

// serve sends messages back, or counts them; requests are answered with their bytes, or with the count.
func (s *services) serve() {
	if s.long != nil {
		taking := make(chan struct{})
		go func() { defer close(taking); s.long.serve(s.ctx) }()
		defer func() { <-taking }()
	}
	var back *ripc.Remote
	count := uint64(0)
	_ = s.service.Serve(s.ctx, func(ctx context.Context, m *ripc.Message) { // it ends with the context
		switch {
		case m.IsRequest() && s.spec.Load == oneWay:
			_ = m.Reply(binary.LittleEndian.AppendUint64(nil, count))
		case m.IsRequest():
			_ = m.Reply(m.Data)
		case s.spec.Load == oneWay:
			count++
		default:
			if back == nil {
				back = m.Sender()
			}
			_ = s.service.Send(ctx, back, m.Data)
		}
	})
}

func (s *services) once(ctx context.Context, caller int) error {
	if s.spec.isLong() {
		return s.long.once(ctx)
	}
	switch s.spec.Load {
	case oneWay:
		return s.service.Send(ctx, s.to, s.body)
	case calls:
		if s.spec.Busy > 0 {
			s = s.others[caller]
		}
		m, err := s.service.Call(ctx, s.to, s.body)
		if err != nil {
			return err
		}
		m.Release()
		return nil
	}
	if err := s.service.Send(ctx, s.to, s.body); err != nil {
		return err
	}
	m, err := s.service.Receive(ctx)
	if err != nil {
		return err
	}
	m.Release()
	return nil
}

// rest ends what the process does beside what was measured.
func (s *services) rest() {
	if s.long != nil {
		s.long.end()
	}
}

func (s *services) received(ctx context.Context) (int, error) {
	m, err := s.service.Call(ctx, s.to)
	if err != nil {
		return 0, err
	}
	defer m.Release()
	return int(binary.LittleEndian.Uint64(m.Data)), nil
}

func (s *services) close() error {
	for _, client := range s.others {
		_ = client.close() // what is measured is the server
	}
	s.cancel()
	if s.long != nil {
		s.long.close()
	}
	if s.endpoint == nil {
		return nil
	}
	return s.endpoint.Close()
}
