package member_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

var roll = replicated.NewCommand[int, int]("roll")

// dice is an object whose handler returns something else at each member, which tells the replies
// apart.
type dice struct{ Rolls int }

// rollers returns objects for the members; held of them waits in the handler of each roll above
// 100.
func rollers(held int, inside, release chan struct{}) func(i int) *member.Object[*dice] {
	return func(i int) *member.Object[*dice] {
		return member.New(squall.SubgroupConfig{Name: "dice", AsyncQueueBytes: 1 << 20}, func() *dice { return &dice{} },
			member.Handle(roll, func(d *dice, _ *member.Context, n int) (int, error) {
				d.Rolls++
				if n < 0 {
					return 0, errNegative
				}
				if n > 100 && i == held {
					inside <- struct{}{}
					<-release
				}
				return 10*(i+1) + n, nil
			}))
	}
}

// gathered is what a sequence of replies had: values by member, and the members that did not
// answer.
func gathered(t *testing.T, target replicated.Target, args, n int) (values map[squall.NodeID]int, silent []squall.NodeID, err error) {
	t.Helper()
	values = map[squall.NodeID]int{}
	for r, e := range roll.Replies(t.Context(), target, args, n) {
		var failed *replicated.HandlerError
		switch {
		case e != nil:
			return values, silent, e
		case errors.Is(r.Err, replicated.ErrNoReply):
			silent = append(silent, r.Member)
		case errors.As(r.Err, &failed):
			values[r.Member] = -1
		case r.Err != nil:
			t.Errorf("member %d: %v", r.Member, r.Err)
		default:
			values[r.Member] = r.Value
		}
	}
	return values, silent, nil
}

func TestRepliesOfAllMembersAreGathered(t *testing.T) {
	t.Parallel()
	all := open(t, 3, rollers(-1, nil, nil), nil)
	c, _ := serve(t, all, ripc.TransportAuto)
	for name, target := range map[string]replicated.Target{"member": all[1].bank, "client": c.Object("dice")} {
		values, silent, err := gathered(t, target, 5, 0)
		if err != nil || len(silent) != 0 || len(values) != 3 || values[1] != 15 || values[2] != 25 || values[3] != 35 {
			t.Errorf("%s: %v, silent %v, %v", name, values, silent, err)
		}
		if values, _, err := gathered(t, target, -5, 0); err != nil || len(values) != 3 || values[1] != -1 {
			t.Errorf("%s: errors of handlers: %v, %v", name, values, err)
		}
		if values, _, err := gathered(t, target, 5, 2); err != nil || len(values) != 2 {
			t.Errorf("%s: of two members: %v, %v", name, values, err)
		}
		unknown := replicated.NewCommand[int, int]("unknown")
		for _, err := range unknown.Replies(t.Context(), target, 1, 0) {
			if !errors.Is(err, replicated.ErrUnknownOperation) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for range roll.Replies(t.Context(), target, 1, 0) {
			break // the rest is not awaited
		}
	}
	var wg sync.WaitGroup
	for i, m := range all { // at the same time
		for k := range 20 {
			wg.Go(func() {
				values, silent, err := gathered(t, m.bank, k, 0)
				if err != nil || len(silent) != 0 || len(values) != 3 || values[3] != 30+k {
					t.Errorf("member %d: %v, silent %v, %v", i+1, values, silent, err)
				}
			})
		}
	}
	wg.Wait()
}

// A member that fails before it has answered is named; one whose answer is on its way is not.
func TestRepliesEndWhenAMemberFails(t *testing.T) {
	t.Parallel()
	for _, client := range []bool{false, true} {
		inside, release := make(chan struct{}), make(chan struct{})
		all := open(t, 3, rollers(2, inside, release), func(_ int, c *squall.Config) {
			c.Heartbeat, c.FailAfter = 50*time.Millisecond, time.Second
		})
		var target replicated.Target = all[0].bank
		if client {
			c, _ := serve(t, all[:2], ripc.TransportAuto)
			target = c.Object("dice")
		}
		type result struct {
			values map[squall.NodeID]int
			silent []squall.NodeID
			err    error
		}
		results := make(chan result, 1)
		go func() {
			values, silent, err := gathered(t, target, 101, 0)
			results <- result{values, silent, err}
		}()
		<-inside // the third member executes it, and does not come back
		all[2].group.Halt(errors.New("it is gone"))
		r := <-results
		if r.err != nil || !slices.Equal(r.silent, []squall.NodeID{3}) || r.values[1] != 111 || r.values[2] != 121 || len(r.values) != 2 {
			t.Errorf("%v, silent %v, %v", r.values, r.silent, r.err)
		}
		close(release)
		if values, silent, err := gathered(t, target, 1, 0); err != nil || len(silent) != 0 || len(values) != 2 {
			t.Errorf("later: %v, silent %v, %v", values, silent, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range roll.Replies(ended, target, 1, 0) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after the context ended: %v", err)
			}
		}
	}
}

var page = replicated.NewCommand[int, string]("page")

// A reply that is larger than a message of the object cannot be sent. Its error can.
func TestAReplyThatIsTooLargeIsAnError(t *testing.T) {
	t.Parallel()
	all := open(t, 2, func(int) *member.Object[*dice] {
		return member.New(squall.SubgroupConfig{Name: "dice", RingBytes: 64 << 10}, func() *dice { return &dice{} },
			member.Handle(page, func(_ *dice, _ *member.Context, n int) (string, error) { return strings.Repeat("x", n), nil }))
	}, nil)
	const bytes = 1 << 20
	replies := 0
	for r, err := range page.Replies(testutil.Within(t), all[0].bank, bytes, 0) {
		replies++
		var failed *replicated.HandlerError
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Member == 1 && (r.Err != nil || len(r.Value) != bytes):
			t.Errorf("the own reply: %d bytes, %v", len(r.Value), r.Err)
		case r.Member == 2 && !errors.As(r.Err, &failed):
			t.Errorf("the other reply: %d bytes, %v", len(r.Value), r.Err)
		}
	}
	if replies != 2 {
		t.Errorf("%d replies", replies)
	}
}
