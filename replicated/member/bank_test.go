package member_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

// bank is the state of the tests' object.
type bank struct {
	Balances map[string]int64
	Random   []uint64
	Times    []squall.Time
}

type depositArgs struct {
	Account string
	Amount  int64
}

var (
	deposit = replicated.NewCommand[depositArgs, int64]("deposit")
	draw    = replicated.NewCommand[struct{}, uint64]("draw")
	burst   = replicated.NewCommand[struct{}, int]("burst")
	nothing = replicated.NewCommand[[]byte, []byte]("nothing")
	balance = replicated.NewQuery[string, int64]("balance")
	total   = replicated.NewQuery[string, int64]("total")
)

var errNegative = errors.New("no account may be negative")

func newBank() *bank { return &bank{Balances: map[string]int64{}} }

// public is the account whose deposits are events.
const public = "public"

func (b *bank) deposit(c *member.Context, args depositArgs) (int64, error) {
	if b.Balances[args.Account]+args.Amount < 0 {
		return 0, errNegative
	}
	b.Balances[args.Account] += args.Amount
	if args.Account == public {
		c.Emit(public, nil)
	}
	return b.Balances[args.Account], nil
}

func (b *bank) draw(c *member.Context, _ struct{}) (uint64, error) {
	b.Random = append(b.Random, c.Rand().Uint64())
	b.Times = append(b.Times, c.Time)
	return b.Random[len(b.Random)-1], nil
}

func (b *bank) burst(*member.Context, struct{}) (int, error) { panic("it bursts") }

func (b *bank) nothing(_ *member.Context, data []byte) ([]byte, error) { return data[:1], nil }

func (b *bank) balance(_ *member.Context, account string) (int64, error) {
	n, ok := b.Balances[account]
	if !ok {
		return 0, fmt.Errorf("there is no account %q", account)
	}
	return n, nil
}

// total is a balance, of an account that needs not be there.
func (b *bank) total(_ *member.Context, account string) (int64, error) {
	return b.Balances[account], nil
}

// accounts returns an object with all operations of a bank.
func accounts(sg squall.SubgroupConfig) *member.Object[*bank] {
	sg.Name = "accounts"
	return member.New(sg, newBank,
		member.Handle(deposit, (*bank).deposit),
		member.Handle(draw, (*bank).draw),
		member.Handle(burst, (*bank).burst),
		member.Handle(nothing, (*bank).nothing),
		member.Handle(balance, (*bank).balance),
		member.Handle(total, (*bank).total))
}

// bankNode is a member of a test's group, with a bank; node one with any object.
type (
	bankNode = node[*bank]

	node[S any] struct {
		group *squall.Group
		bank  *member.Object[S]
	}
)

// open opens a group of n members in this process. They are closed when the test ends.
func open[S any](t testing.TB, n int, object func(i int) *member.Object[S], change func(i int, c *squall.Config)) []*node[S] {
	t.Helper()
	all := []*node[S]{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	addr := testutil.FreeAddress(t)
	var wg sync.WaitGroup
	var errs [16]error
	for i := range n {
		m := &node[S]{bank: object(i)}
		all = append(all, m)
		wg.Go(func() {
			c := squall.Config{
				Cluster: "test", ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: n, Logger: quiet,
			}
			if i == 0 {
				c.Listen = addr
			}
			if change != nil {
				change(i, &c)
			}
			m.group, errs[i] = member.Open(ctx, c, m.bank)
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, all) })
	return all
}

func closeAll[S any](t testing.TB, all []*node[S]) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range all {
		wg.Go(func() {
			if err := m.group.Close(ctx); err != nil && m.group.Err() == nil {
				t.Errorf("closing: %v", err)
			}
		})
	}
	wg.Wait()
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// ordered returns a bank in an Ordered subgroup.
func ordered(int) *member.Object[*bank] { return accounts(squall.SubgroupConfig{}) }
