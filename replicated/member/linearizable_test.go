package member_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
)

// step is one operation of a history: a deposit, or a balance that was read.
type step struct {
	account string
	amount  int64 // 0: it reads
}

// history is a model of accounts for porcupine: each account is a history of its own.
var history = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		byAccount := map[string][]porcupine.Operation{}
		for _, op := range all {
			account := op.Input.(step).account
			byAccount[account] = append(byAccount[account], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byAccount {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		next := state.(int64) + input.(step).amount
		return output.(int64) == next, next
	},
	DescribeOperation: func(input, output any) string {
		s := input.(step)
		return fmt.Sprintf("%s %+d: %d", s.account, s.amount, output)
	},
}

// TestHistoriesAreLinearizableWhateverIsKilled has clients write and read a few accounts while
// members are killed, and checks the whole history.
func TestHistoriesAreLinearizableWhateverIsKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, false, false)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []porcupine.Operation
	calls := 0
	began := time.Now()
	seed := testutil.Seed(t)
	for i := range 6 {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		addrs := f.clients()
		rnd.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
		bank := dial(t, replicated.ClientConfig{Addresses: addrs}).Object("accounts")
		wg.Go(func() {
			for ctx.Err() == nil {
				s := step{account: fmt.Sprint(rnd.IntN(3)), amount: int64(rnd.IntN(3))}
				calling, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				op := porcupine.Operation{ClientId: i, Input: s, Call: time.Since(began).Nanoseconds()}
				var n int64
				var err error
				if s.amount == 0 {
					n, err = total.Call(calling, bank, s.account)
				} else {
					n, err = deposit.Call(calling, bank, depositArgs{s.account, s.amount})
				}
				op.Output, op.Return = n, time.Since(began).Nanoseconds()
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, op)
				calls++
				mu.Unlock()
			}
		})
	}
	for lap := range *kills {
		victim := 1 + lap%2
		awaitCalls(t, &mu, &calls, 100)
		f.all[victim].Kill()
		_ = f.all[victim].Wait()
		awaitCalls(t, &mu, &calls, 100)
		f.specs[victim].ID += 10
		f.start(victim)
		f.ready(victim)
	}
	stop()
	wg.Wait()
	if verdict := porcupine.CheckOperationsTimeout(history, all, time.Minute); verdict != porcupine.Ok {
		t.Errorf("a history of %d operations: %v", len(all), verdict)
	}
	t.Logf("%d operations", len(all))
}
