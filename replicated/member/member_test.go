package member_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

func TestAPanicHaltsTheGroupAndNamesTheCommand(t *testing.T) {
	t.Parallel()
	all := open(t, 2, ordered, nil)
	_, err := burst.Call(t.Context(), all[0].bank, struct{}{})
	var burst *member.PanicError
	if !errors.As(err, &burst) || burst.Operation != "burst" || burst.Value != "it bursts" {
		t.Errorf("the caller got %v", err)
	}
	for _, m := range all {
		<-m.group.Done()
		if !errors.As(m.group.Err(), &burst) {
			t.Errorf("a member halted with %v", m.group.Err())
		}
	}
	if _, err := balance.Local(t.Context(), all[0].bank, "ann"); !errors.As(err, &burst) {
		t.Errorf("a copy that is not to be trusted answers with %v", err)
	}
}

func TestAnOperationThatAMemberLacksIsRefusedBeforeItIsOrdered(t *testing.T) {
	t.Parallel()
	older := func() *member.Object[*bank] {
		return member.New(squall.SubgroupConfig{Name: "accounts"}, newBank, member.Handle(balance, (*bank).balance), member.Handle(draw, (*bank).draw))
	}
	all := open(t, 2, func(i int) *member.Object[*bank] {
		if i == 1 {
			return older()
		}
		o := ordered(i)
		o.EnableAfter(0)
		return o
	}, nil)
	if _, err := draw.Call(t.Context(), all[0].bank, struct{}{}); err != nil {
		t.Fatal(err)
	}
	if _, err := deposit.Call(t.Context(), all[0].bank, depositArgs{"ann", 1}); !errors.Is(err, replicated.ErrUnknownOperation) {
		t.Errorf("the member that knows it says %v", err)
	}
	if _, err := deposit.Call(t.Context(), all[1].bank, depositArgs{"ann", 1}); !errors.Is(err, replicated.ErrUnknownOperation) {
		t.Errorf("the member that does not says %v", err)
	}
	// The older program leaves, and the operation is enabled.
	if err := all[1].group.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for v := range all[0].group.Views(t.Context()) {
		if len(v.Members) == 1 {
			break
		}
	}
	if _, err := deposit.Call(t.Context(), all[0].bank, depositArgs{"ann", 1}); err != nil {
		t.Error(err)
	}
	// It cannot come back.
	_, err := member.Open(t.Context(), squall.Config{
		Cluster: "test", ID: 9, Listen: "127.0.0.1:0", Join: []string{all[0].group.Addr()}, InitialMembers: 2, Logger: quiet,
	}, older())
	if !errors.Is(err, squall.ErrRefused) {
		t.Errorf("the older program joins: %v", err)
	}
}

func TestDeclarationsAreChecked(t *testing.T) {
	t.Parallel()
	type hidden struct{ n int }
	for what, o := range map[string]member.AnyObject{
		"a hidden field": member.New(squall.SubgroupConfig{Name: "o"}, func() *hidden { return &hidden{1} }),
		"a function":     member.New(squall.SubgroupConfig{Name: "o", Deliver: func(squall.Message) {}}, newBank),
		"two names": member.New(squall.SubgroupConfig{Name: "o"}, newBank,
			member.Handle(draw, (*bank).draw), member.Handle(draw, (*bank).draw)),
		"a log that drops commands": member.New(squall.SubgroupConfig{Name: "o", Mode: squall.Persistent, Log: squall.LogConfig{Retain: squall.Retention{Records: 2}}}, newBank),
		"no order":                  member.New(squall.SubgroupConfig{Name: "o", Mode: squall.Unordered}, newBank),
	} {
		if _, err := member.Open(t.Context(), squall.Config{}, o); err == nil {
			t.Errorf("%s is accepted", what)
		} else if !strings.HasPrefix(err.Error(), `replicated: object "o": `) {
			t.Errorf("%s: it is said that %v", what, err)
		}
	}
	if _, err := deposit.Call(t.Context(), ordered(0), depositArgs{}); !errors.Is(err, member.ErrNotOpen) {
		t.Errorf("a call on an object that is not open: %v", err)
	}
}

func TestAnObjectSurvivesTheEndOfAllMembers(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	durable := func(int) *member.Object[*bank] { return accounts(squall.SubgroupConfig{Mode: squall.Persistent}) }
	addrs := []string{testutil.FreeAddress(t), testutil.FreeAddress(t)}
	configure := func(i int, c *squall.Config) { c.Dir, c.Listen, c.Join = dirs[i], addrs[i], addrs }
	want := map[string]int64{}
	for lap := range 3 {
		all := open(t, 2, durable, configure)
		for i, m := range all {
			for range 5 {
				account := []string{"ann", "bob"}[i]
				n, err := deposit.Call(t.Context(), m.bank, depositArgs{account, 1})
				want[account]++
				if err != nil || n != want[account] {
					t.Fatalf("lap %d: a balance of %d, %v; want %d", lap, n, err, want[account])
				}
			}
		}
		if lap == 1 {
			for _, m := range all {
				if _, err := m.bank.Subgroup().TakeSnapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, m := range all {
			if err := m.bank.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.bank.View(func(b *bank) {
				if !maps.Equal(b.Balances, want) {
					t.Errorf("lap %d: %v, want %v", lap, b.Balances, want)
				}
			})
		}
		closeAll(t, all)
	}
}

func TestCopiesThatDifferAreTold(t *testing.T) {
	t.Parallel()
	told := make(chan *member.DivergedError, 16)
	all := open(t, 2, func(i int) *member.Object[*bank] {
		wrong := member.Handle(deposit, func(b *bank, c *member.Context, args depositArgs) (int64, error) {
			if i == 1 && b.Balances["ann"] == 14 {
				b.Balances["hidden"] = 1
			}
			return b.deposit(c, args)
		})
		o := member.New(squall.SubgroupConfig{Name: "accounts"}, newBank, wrong)
		o.Check(10, func(e *member.DivergedError) { told <- e })
		return o
	}, nil)
	for n := range 30 {
		if _, err := deposit.Call(t.Context(), all[0].bank, depositArgs{"ann", 1}); err != nil {
			t.Fatal(err)
		}
		if n == 9 && len(told) > 0 {
			t.Fatalf("equal copies are told: %v", <-told)
		}
	}
	e := <-told
	if e.Commands != 20 && e.Commands != 30 || e.Member == e.Other || e.Object != "accounts" {
		t.Errorf("got %v", e)
	}
}

// seeded is a state that does not begin empty.
type seeded struct {
	Entries map[string]int
	Off     bool `cbor:",omitempty"`
	Local   int  `cbor:"-"`
}

var forget = replicated.NewCommand[string, int]("forget")

func (s *seeded) forget(_ *member.Context, name string) (int, error) {
	delete(s.Entries, name)
	s.Off = false
	return len(s.Entries), nil
}

func TestAJoinerHasNothingThatTheOthersRemoved(t *testing.T) {
	t.Parallel()
	object := func(int) *member.Object[*seeded] {
		return member.New(squall.SubgroupConfig{Name: "seeded"},
			func() *seeded { return &seeded{Entries: map[string]int{"a": 1, "b": 2}, Off: true, Local: 7} },
			member.Handle(forget, (*seeded).forget))
	}
	all := open(t, 1, object, nil)
	if n, err := forget.Call(t.Context(), all[0].bank, "a"); n != 1 || err != nil {
		t.Fatalf("%d entries, %v", n, err)
	}
	late := &node[*seeded]{bank: object(0)}
	var err error
	late.group, err = member.Open(t.Context(), squall.Config{
		Cluster: "test", ID: 9, Listen: "127.0.0.1:0", Join: []string{all[0].group.Addr()}, InitialMembers: 1, Logger: quiet,
	}, late.bank)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, []*node[*seeded]{late}) })
	late.bank.View(func(s *seeded) {
		if len(s.Entries) != 1 || s.Entries["b"] != 2 || s.Off || s.Local != 7 {
			t.Errorf("the joiner has %+v", s)
		}
	})
}
