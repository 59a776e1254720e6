package dds

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
)

func TestASetWhoseOnlySampleIsTooLargeIsForgotten(t *testing.T) {
	c := &client{sets: clientSets{writing: map[uint64]*clientSet{}}}
	c.cfg.OutboxBytes, c.relay.welcome.MaxBytes = 64, 1<<20
	s := &CoherentSet{number: 1, idle: make(chan struct{})}
	s.enter()
	if err := c.add(1, space.ID{}, remote.Entry{Data: make([]byte, 1000)}); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("%v, want ErrTooLarge", err)
	}
	s.leave()
	if err := s.end(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	if n := len(c.sets.writing); n != 0 {
		t.Errorf("%d sets are kept", n)
	}
}

func TestASetWhoseFunctionPanicsIsForgotten(t *testing.T) {
	c := &client{sets: clientSets{writing: map[uint64]*clientSet{}}}
	c.cfg.OutboxBytes, c.relay.welcome.MaxBytes = 1<<20, 1<<20
	p := &Participant{core: core.New("s")}
	p.core.Backend = c
	dropped := make(chan struct{})
	func() {
		defer func() { _ = recover() }()
		_ = p.Coherent(t.Context(), func(s *CoherentSet) error {
			s.enter()
			if err := c.add(s.number, space.ID{}, remote.Entry{Data: make([]byte, 10)}); err != nil {
				t.Error(err)
			}
			s.begin()
			s.leave()
			go func() {
				defer close(dropped)
				for {
					c.mu.Lock()
					n := len(c.sets.writing)
					c.mu.Unlock()
					if n == 0 || t.Context().Err() != nil {
						return
					}
					runtime.Gosched()
				}
			}()
			panic("of the application")
		})
	}()
	select {
	case <-dropped:
	case <-time.After(time.Minute):
		t.Error("the set is kept")
	}
}
