package member_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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

var (
	drawn   = replicated.NewQuery[struct{}, []uint64]("drawn")
	nested  = replicated.NewQuery[struct{}, string]("nested")
	panicky = replicated.NewQuery[struct{}, int]("panicky")
)

// remembering returns a bank whose past is asked for.
func remembering(sg squall.SubgroupConfig) *member.Object[*bank] {
	sg.Name = "accounts"
	var o *member.Object[*bank]
	o = member.New(sg, newBank,
		member.Handle(deposit, (*bank).deposit),
		member.Handle(draw, (*bank).draw),
		member.Handle(total, (*bank).total),
		member.Handle(drawn, func(b *bank, _ *member.Context, _ struct{}) ([]uint64, error) { return b.Random, nil }),
		member.Handle(panicky, func(*bank, *member.Context, struct{}) (int, error) { panic("it panics") }),
		member.Handle(nested, func(_ *bank, c *member.Context, _ struct{}) (string, error) {
			_, err := total.At(context.Background(), o, c.Version, "ann")
			return fmt.Sprint(errors.Is(err, replicated.ErrInHandler)), nil
		}))
	return o
}

// instant is a place in the history of the bank, with what was there.
type instant struct {
	version squall.Version
	time    squall.Time
	total   int64
	drawn   []uint64
}

// TestThePastIsTheSameEverywhere asks two members, their clients, and, after a restart of all, the
// members again.
func TestThePastIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	addrs := []string{testutil.FreeAddress(t), testutil.FreeAddress(t)}
	durable := func(int) *member.Object[*bank] {
		return remembering(squall.SubgroupConfig{Mode: squall.Persistent})
	}
	configure := func(i int, c *squall.Config) { c.Dir, c.Listen, c.Join = dirs[i], addrs[i], addrs }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var history []instant
	all := open(t, 2, durable, configure)
	add := func() {
		t.Helper()
		var i instant
		if n := len(history); n > 0 {
			i = history[n-1]
		}
		f, err := deposit.Go(ctx, all[len(history)%2].bank, depositArgs{"ann", 1})
		if err == nil {
			i.total, i.version, err = f.WaitVersion(ctx)
		}
		if err == nil && len(history)%3 == 0 {
			var n uint64
			var g *replicated.Future[uint64]
			if g, err = draw.Go(ctx, all[0].bank, struct{}{}); err == nil {
				n, i.version, err = g.WaitVersion(ctx)
				i.drawn = append(slices.Clone(i.drawn), n)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		log, err := all[0].bank.Subgroup().Log()
		if err == nil {
			err = log.WaitPersisted(ctx, squall.OnEveryDisk, i.version)
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := log.Get(i.version)
		if err != nil {
			t.Fatal(err)
		}
		i.time = r.Time
		history = append(history, i)
	}
	ask := func(target replicated.Target, i instant) {
		t.Helper()
		if n, err := total.At(ctx, target, i.version, "ann"); err != nil || n != i.total {
			t.Fatalf("%T at %v: %d, %v; want %d", target, i.version, n, err, i.total)
		}
		if n, err := total.AtTime(ctx, target, i.time, "ann"); err != nil || n != i.total {
			t.Fatalf("%T at the time %v: %d, %v; want %d", target, i.time, n, err, i.total)
		}
		if all, err := drawn.At(ctx, target, i.version, struct{}{}); err != nil || !slices.Equal(all, i.drawn) {
			t.Fatalf("%T at %v: the numbers are %v, %v; want %v", target, i.version, all, err, i.drawn)
		}
	}
	askAll := func() {
		t.Helper()
		targets := []replicated.Target{all[0].bank, all[1].bank}
		for _, m := range all {
			c, _ := serve(t, []*bankNode{m}, ripc.TransportAuto)
			targets = append(targets, c.Object("accounts"))
		}
		for _, target := range targets {
			for k := range history {
				ask(target, history[k])
			}
			for k := range history {
				ask(target, history[len(history)-1-k])
			}
		}
		var wg sync.WaitGroup
		for k := range history {
			for _, target := range targets {
				wg.Go(func() { ask(target, history[k]) })
			}
		}
		wg.Wait()
	}
	for range 10 {
		add()
	}
	askAll()
	if n, err := total.AtTime(ctx, all[1].bank, history[0].time-squall.Time(time.Hour), "ann"); n != 0 || err != nil {
		t.Errorf("before the first deposit: %d, %v", n, err)
	}
	closeAll(t, all)
	all = open(t, 2, durable, configure)
	for range 3 {
		add()
	}
	askAll()
	// A snapshot takes the place of what comes before it.
	at, err := all[0].bank.Subgroup().TakeSnapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	add()
	old := history[4]
	for i, m := range all {
		_, err := total.At(ctx, m.bank, old.version, "ann")
		if i == 1 {
			if err != nil {
				t.Errorf("a member without a snapshot does not remember: %v", err)
			}
			continue
		}
		for _, err := range []error{err, func() error { _, err := total.AtTime(ctx, m.bank, old.time, "ann"); return err }()} {
			if !errors.Is(err, replicated.ErrNotKept) || !strings.Contains(err.Error(), "ask for a later") {
				t.Errorf("after a snapshot of version %v: %v", at, err)
			}
		}
		ask(m.bank, history[len(history)-1])
		ask(m.bank, history[len(history)-2]) // the snapshot itself
	}
}

// TestAMomentThatIsNotFinalIsWaitedFor asks for versions and times that have not come.
func TestAMomentThatIsNotFinalIsWaitedFor(t *testing.T) {
	t.Parallel()
	addr := testutil.FreeAddress(t)
	dir := t.TempDir()
	all := open(t, 1, func(int) *member.Object[*bank] {
		return remembering(squall.SubgroupConfig{Mode: squall.Persistent})
	},
		func(_ int, c *squall.Config) { c.Dir, c.Listen, c.Join = dir, addr, []string{addr} })
	c, _ := serve(t, all, ripc.TransportAuto)
	first, err := deposit.Go(t.Context(), all[0].bank, depositArgs{"ann", 1})
	if err != nil {
		t.Fatal(err)
	}
	_, v, err := first.WaitVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var own replicated.Target = all[0].bank
	for _, target := range []replicated.Target{own, c.Object("accounts")} {
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := total.At(short, target, squall.Version{View: v.View + 9}, "ann")
		if !errors.Is(err, replicated.ErrNotFinal) && target == own || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%T: a version that has not come: %v", target, err)
		}
		_, err = total.AtTime(short, target, squall.TimeOf(time.Now().Add(time.Hour)), "ann")
		if !errors.Is(err, replicated.ErrNotFinal) && target == own || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%T: a time that has not come: %v", target, err)
		}
		cancel()
		ctx := testutil.Within(t)
		for wait := 200 * time.Millisecond; ; wait *= 2 { // until a member has answered in time
			short, cancel := context.WithTimeout(ctx, wait)
			n, err := total.AtTime(short, target, math.MaxUint64, "ann")
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				t.Fatalf("%T: the last time that there is: %d, %v", target, n, err)
			}
			if errors.Is(err, replicated.ErrNotFinal) {
				break
			}
		}
		// A time that comes while it is waited for, without any further command. A client asks twice.
		if n, err := total.AtTime(t.Context(), target, squall.TimeOf(time.Now().Add(700*time.Millisecond)), "ann"); n != 1 || err != nil {
			t.Errorf("%T: %d, %v", target, n, err)
		}
	}
	if _, err := panicky.At(t.Context(), c.Object("accounts"), v, struct{}{}); !errors.As(err, new(*replicated.HandlerError)) {
		t.Errorf("a query that panics: %v", err)
	}
	if n, err := total.At(t.Context(), c.Object("accounts"), v, "ann"); n != 1 || err != nil {
		t.Errorf("after a query that panicked: %d, %v", n, err)
	}
}

// TestOnlyPersistentObjectsHaveAPast asks objects that have none, and from within handlers.
func TestOnlyPersistentObjectsHaveAPast(t *testing.T) {
	t.Parallel()
	all := open(t, 1, func(int) *member.Object[*bank] { return remembering(squall.SubgroupConfig{}) }, nil)
	c, _ := serve(t, all, ripc.TransportAuto)
	if _, err := total.At(t.Context(), all[0].bank, squall.Version{}, "ann"); !errors.Is(err, squall.ErrNotPersistent) {
		t.Errorf("an object in memory: %v", err)
	}
	if _, err := total.At(t.Context(), c.Object("accounts"), squall.Version{}, "ann"); !errors.Is(err, squall.ErrNotPersistent) || !strings.Contains(err.Error(), "squall.Persistent") {
		t.Errorf("an object in memory, of a client: %v", err)
	}
	if said, err := nested.Call(t.Context(), all[0].bank, struct{}{}); said != "true" || err != nil {
		t.Errorf("a handler asked for the past: %s, %v", said, err)
	}
}

// TestAHandlerIsOneInThePastToo has a handler call, which is refused when it is executed, and when
// the past is rebuilt.
func TestAHandlerIsOneInThePastToo(t *testing.T) {
	t.Parallel()
	meddle := replicated.NewCommand[struct{}, struct{}]("meddle")
	var o *member.Object[*bank]
	addr, dir := testutil.FreeAddress(t), t.TempDir()
	all := open(t, 1, func(int) *member.Object[*bank] {
		o = member.New(squall.SubgroupConfig{Name: "accounts", Mode: squall.Persistent}, newBank,
			member.Handle(deposit, (*bank).deposit),
			member.Handle(total, (*bank).total),
			member.Handle(drawn, func(b *bank, _ *member.Context, _ struct{}) ([]uint64, error) { return b.Random, nil }),
			member.Handle(meddle, func(b *bank, _ *member.Context, _ struct{}) (none struct{}, err error) {
				refused := uint64(0)
				if _, err := deposit.Call(context.Background(), o, depositArgs{"ann", 1}); errors.Is(err, replicated.ErrInHandler) {
					refused = 1
				}
				b.Random = append(b.Random, refused)
				return none, nil
			}))
		return o
	}, func(_ int, c *squall.Config) { c.Dir, c.Listen, c.Join = dir, addr, []string{addr} })
	f, err := meddle.Go(t.Context(), all[0].bank, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	_, v, err := f.WaitVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if then, err := drawn.At(testutil.Within(t), o, v, struct{}{}); err != nil || !slices.Equal(then, []uint64{1}) {
		t.Errorf("the calls were refused then: %v, %v", then, err)
	}
	if n, err := total.Call(t.Context(), o, "ann"); n != 0 || err != nil {
		t.Errorf("to rebuild the past made %d deposits, %v", n, err)
	}
}
