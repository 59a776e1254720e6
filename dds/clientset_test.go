package dds

import (
	"context"
	"errors"
	"testing"

	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
)

func TestASetWhoseOnlySampleIsTooLargeIsForgotten(t *testing.T) {
	c := &client{writing: map[uint64]*clientSet{}}
	c.cfg.OutboxBytes, c.welcome.MaxBytes = 64, 1<<20
	s := &Set{number: 1, idle: make(chan struct{})}
	s.enter()
	if err := c.add(1, space.ID{}, remote.Entry{Data: make([]byte, 1000)}); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("%v, want ErrTooLarge", err)
	}
	s.leave()
	if err := s.end(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	if n := len(c.writing); n != 0 {
		t.Errorf("%d sets are kept", n)
	}
}
