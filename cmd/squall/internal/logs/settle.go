package logs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// noteAfter is how long a person waits for a time to be settled without being told: mostly it is
// settled at once.
const noteAfter = 500 * time.Millisecond

// settle waits until questions about times up to one have the same answer for ever, at every
// member. It waits no longer than --timeout: a time that lies ahead is not settled before it has
// come. What is in a directory stays.
func (t *target) settle(ctx context.Context, l library, id persist.LogID, at order.Time) error {
	m, runs := l.(*member)
	if !runs || at == 0 {
		return nil
	}
	asking, stop := context.WithTimeout(ctx, t.timeout)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- m.settled(asking, id, at) }()
	select {
	case err := <-done:
		return t.unsettled(ctx, at, err)
	case <-time.After(noteAfter):
		t.note("waiting until %v is settled", at)
	}
	return t.unsettled(ctx, at, <-done)
}

// unsettled says why a time is not settled, if it is not.
func (t *target) unsettled(ctx context.Context, at order.Time, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%v is not settled at %s within --timeout %v: records with times up to then may still come; ask for an earlier one, or wait longer",
		at, t.name, t.timeout)
}

// settled asks for the record at a time, of which there is rarely one: the answer is small, and
// comes when the time is settled.
func (m *member) settled(ctx context.Context, id persist.LogID, at order.Time) error {
	for _, err := range m.Between(ctx, id, at, at+1) {
		return err
	}
	return ctx.Err()
}
