package member_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

var nest = replicated.NewCommand[int, int]("nest")

// nester is an object whose handler calls others, and keeps the errors of that.
type nester struct{ Errors []string }

func TestACallInAHandlerIsRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	other := ordered(0)
	var self *member.Object[*nester]
	var errs [4]error
	self = member.New(squall.SubgroupConfig{Name: "nester"}, func() *nester { return &nester{} },
		member.Handle(nest, func(*nester, *member.Context, int) (int, error) {
			_, errs[0] = nest.Call(ctx, self, 0)
			_, errs[1] = deposit.Call(ctx, other, depositArgs{"ann", 1})
			_, errs[2] = total.Call(ctx, other, "ann")
			errs[3] = other.Sync(ctx)
			return 0, nil
		}))
	g, err := member.Open(ctx, squall.Config{Cluster: "test", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet}, self, other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	if _, err := deposit.Call(ctx, other, depositArgs{"ann", 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := nest.Call(ctx, self, 0); err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if !errors.Is(err, replicated.ErrInHandler) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// A query obeys its context while an earlier one waits for a group that is held up.
func TestAQueryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	inside, release := make(chan struct{}), make(chan struct{})
	hold := replicated.NewCommand[int, int]("hold")
	o := open(t, 1, func(int) *member.Object[*bank] {
		return member.New(squall.SubgroupConfig{Name: "accounts"}, newBank, member.Handle(total, (*bank).total),
			member.Handle(hold, func(*bank, *member.Context, int) (int, error) {
				close(inside)
				<-release
				return 0, nil
			}))
	}, nil)[0].bank
	held, err := hold.Go(t.Context(), o, 0)
	if err != nil {
		t.Fatal(err)
	}
	<-inside
	ended := make(chan error, 3)
	for range cap(ended) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := total.Call(ctx, o, "ann")
			ended <- err
		}()
		time.AfterFunc(50*time.Millisecond, cancel)
	}
	for range cap(ended) {
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("a query goes on after its context has ended")
		}
	}
	close(release)
	if _, err := held.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := total.Call(t.Context(), o, "ann"); err != nil {
		t.Errorf("a query later: %v", err)
	}
}
