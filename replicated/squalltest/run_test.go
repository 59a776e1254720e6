package squalltest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/replicated/squalltest"
)

// purse is the state of the tests' object.
type purse struct {
	Coins map[string]int64
	Drawn []uint64
	Times []squall.Time
}

type pay struct {
	To    string
	Coins int64
}

var (
	put  = replicated.NewCommand[pay, int64]("put")
	draw = replicated.NewCommand[struct{}, uint64]("draw")
	look = replicated.NewQuery[string, int64]("look")
)

var errNone = errors.New("nothing is taken out that is not in it")

func (p *purse) put(_ *member.Context, a pay) (int64, error) {
	if p.Coins[a.To]+a.Coins < 0 {
		return 0, errNone
	}
	p.Coins[a.To] += a.Coins
	return p.Coins[a.To], nil
}

func (p *purse) draw(c *member.Context, _ struct{}) (uint64, error) {
	p.Drawn, p.Times = append(p.Drawn, c.Rand().Uint64()), append(p.Times, c.Time)
	return p.Drawn[len(p.Drawn)-1], nil
}

func (p *purse) look(_ *member.Context, who string) (int64, error) { return p.Coins[who], nil }

func newPurse(sg squall.SubgroupConfig) func() *member.Object[*purse] {
	sg.Name = "purse"
	return func() *member.Object[*purse] {
		return member.New(sg, func() *purse { return &purse{Coins: map[string]int64{}} },
			member.Handle(put, (*purse).put), member.Handle(draw, (*purse).draw), member.Handle(look, (*purse).look))
	}
}

// spend has a client pay and look, with several calls at the same time.
func spend(c *squalltest.Client) {
	one := func() {
		for range 6 {
			who := fmt.Sprint(c.Rand().IntN(2))
			switch c.Rand().IntN(4) {
			case 0:
				_, _ = look.Call(c.Context(), c.Object(), who)
			case 1:
				_, _ = draw.Call(c.Context(), c.Object(), struct{}{})
			default:
				_, _ = put.Call(c.Context(), c.Object(), pay{who, int64(c.Rand().IntN(7) - 2)})
			}
		}
	}
	c.Go(one)
	one()
}

func solvent(p *purse) error {
	for who, n := range p.Coins {
		if n < 0 {
			return fmt.Errorf("%s has %d coins", who, n)
		}
	}
	return nil
}

func TestAnObjectInMemory(t *testing.T) {
	squalltest.Run(t, squalltest.Config{Seeds: 60}, newPurse(squall.SubgroupConfig{}), spend, solvent)
}

func TestAPersistentObject(t *testing.T) {
	squalltest.Run(t, squalltest.Config{Seeds: 30}, newPurse(squall.SubgroupConfig{Mode: squall.Persistent}), spend, solvent)
}

func TestAPersistentObjectThatForgets(t *testing.T) {
	durable := newPurse(squall.SubgroupConfig{Mode: squall.Persistent})
	squalltest.Run(t, squalltest.Config{Seeds: 20}, func() *member.Object[*purse] {
		o := durable()
		o.EarlyReplies()
		return o
	}, spend, solvent)
}
