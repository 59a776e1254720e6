package member_test

import (
	"sync"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

var chunk = replicated.NewCommand[int, []byte]("chunk")

// TestCommandsWaitUntilEarlierRepliesAreAcknowledged has a client call more commands at a time than
// the replies that an object keeps for it. It reads all, and none of its commands fails.
func TestCommandsWaitUntilEarlierRepliesAreAcknowledged(t *testing.T) {
	t.Parallel()
	const lanes, calls, bytes = 64, 10, 32 << 10 // twice what is kept
	all := open(t, 2, func(int) *member.Object[*bank] {
		return member.New(squall.SubgroupConfig{Name: "accounts"}, newBank,
			member.Handle(chunk, func(b *bank, _ *member.Context, n int) ([]byte, error) {
				b.Balances["chunks"]++
				return make([]byte, n), nil
			}))
	}, nil)
	c, _ := serve(t, all, ripc.TransportAuto)
	o := c.Object("accounts")
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			for range calls {
				switch lane % 2 {
				case 0:
					if reply, err := chunk.Call(testutil.Within(t), o, bytes); err != nil || len(reply) != bytes {
						t.Errorf("%d bytes, %v", len(reply), err)
					}
				default:
					n := 0
					for r, err := range chunk.Replies(testutil.Within(t), o, bytes, 0) {
						if n++; err != nil || r.Err != nil || len(r.Value) != bytes {
							t.Errorf("%d bytes, %v, %v", len(r.Value), r.Err, err)
						}
					}
					if n != len(all) {
						t.Errorf("%d replies", n)
					}
				}
			}
		})
	}
	wg.Wait()
	for i, m := range all {
		m.bank.View(func(b *bank) {
			if b.Balances["chunks"] != lanes*calls && i == 0 {
				t.Errorf("%d commands were executed", b.Balances["chunks"])
			}
		})
	}
}
