package member_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// What every member refuses alike ends a client's call: it is not a reason to ask another member,
// again and again.
func TestAClientDoesNotRepeatWhatEveryMemberRefuses(t *testing.T) {
	t.Parallel()
	all := open(t, 2, func(int) *member.Object[*bank] {
		return accounts(squall.SubgroupConfig{RingBytes: 8 << 10})
	}, nil)
	c, _ := serve(t, all, ripc.TransportAuto)
	o := c.Object("accounts")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	large := all[0].bank.Subgroup().MaxMessageBytes()
	_, err := nothing.Call(ctx, o, make([]byte, large))
	if err == nil || ctx.Err() != nil || !errors.Is(err, squall.ErrTooLarge) {
		t.Errorf("a command of more than %d bytes: %v", large, err)
	}
	other := replicated.NewQuery[map[string]int, int64]("balance") // of a program with other types
	var failed *replicated.HandlerError
	if _, err := other.Local(ctx, o, map[string]int{"ann": 1}); !errors.As(err, &failed) {
		t.Errorf("a query with arguments that cannot be decoded: %v", err)
	}
}
