package member_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

// order is what a shop is asked for: it has the book note so many lines.
type order struct {
	From  string
	Lines int
}

var (
	place   = replicated.NewCommand[order, int]("place")
	note    = replicated.NewCommand[string, int]("note")
	noted   = replicated.NewQuery[string, []string]("noted")
	placed  = replicated.NewQuery[string, int]("placed")
	counted = replicated.NewQuery[string, int]("counted")
	paged   = replicated.NewQuery[int, []string]("paged")
)

// shop sends a line to the book for each order. Book keeps the lines, and whose they are.
type (
	shop struct{ Orders int }
	book struct{ Lines []string }
)

func (s *shop) place(c *member.Context, o order) (int, error) {
	for i := range o.Lines {
		s.Orders++
		if err := member.Send(c, "book", note, fmt.Sprintf("%s/%d", o.From, i)); err != nil {
			return 0, err
		}
	}
	return s.Orders, nil
}

func (b *book) note(c *member.Context, line string) (int, error) {
	b.Lines = append(b.Lines, c.Caller.Object+":"+line)
	return len(b.Lines), nil
}

func newShop(mode squall.Mode) *member.Object[*shop] {
	return member.New(squall.SubgroupConfig{Name: "shop", Mode: mode}, func() *shop { return &shop{} },
		member.Handle(place, (*shop).place),
		member.Handle(placed, func(s *shop, _ *member.Context, _ string) (int, error) { return s.Orders, nil }))
}

func newBook(mode squall.Mode) *member.Object[*book] {
	return member.New(squall.SubgroupConfig{Name: "book", Mode: mode}, func() *book { return &book{} },
		member.Handle(note, (*book).note),
		member.Handle(counted, func(b *book, _ *member.Context, _ string) (int, error) { return len(b.Lines), nil }),
		member.Handle(paged, func(b *book, _ *member.Context, from int) ([]string, error) {
			return b.Lines[min(from, len(b.Lines)):min(from+300, len(b.Lines))], nil
		}),
		member.Handle(noted, func(b *book, _ *member.Context, _ string) ([]string, error) { return b.Lines, nil }))
}

// trade is a member with both.
type trade struct {
	group *squall.Group
	shop  *member.Object[*shop]
	book  *member.Object[*book]
}

func openTrade(t *testing.T, n int, mode squall.Mode, change func(i int, c *squall.Config)) []*trade {
	t.Helper()
	all := make([]*trade, n)
	addr := testutil.FreeAddress(t)
	var wg sync.WaitGroup
	for i := range all {
		all[i] = &trade{shop: newShop(mode), book: newBook(mode)}
		wg.Go(func() {
			c := squall.Config{Cluster: "test", ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: n, Logger: quiet}
			if i == 0 {
				c.Listen = addr
			}
			if change != nil {
				change(i, &c)
			}
			var err error
			if all[i].group, err = member.Open(t.Context(), c, all[i].shop, all[i].book); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() { closeTrade(t, all) })
	return all
}

func closeTrade(t *testing.T, all []*trade) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range all {
		wg.Go(func() { _ = m.group.Close(ctx) })
	}
	wg.Wait()
}

// await waits until a condition holds.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); {
		if time.Now().After(end) || t.Failed() {
			t.Fatalf("%s: not within 30 s", what)
		}
		time.Sleep(time.Millisecond) // polls; the loop ends with the condition
	}
}

// lines returns what the book has, once it has so many lines.
func lines(t *testing.T, b replicated.Target, n int) (all []string) {
	t.Helper()
	await(t, fmt.Sprintf("%d lines", n), func() bool {
		var err error
		if all, err = noted.Call(t.Context(), b, ""); err != nil {
			t.Error(err)
		}
		return len(all) >= n
	})
	return all
}

func TestWhatAHandlerSendsIsExecutedOnce(t *testing.T) {
	t.Parallel()
	all := openTrade(t, 3, squall.Ordered, nil)
	const each, per = 40, 3
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() {
			for k := range each {
				if _, err := place.Call(t.Context(), m.shop, order{fmt.Sprintf("%d-%d", i, k), per}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	got := lines(t, all[2].book, len(all)*each*per)
	if len(got) != len(all)*each*per {
		t.Errorf("%d lines, want %d", len(got), len(all)*each*per)
	}
	at := map[string]int{}
	for i, line := range got {
		if _, twice := at[line]; twice {
			t.Errorf("%s is there twice", line)
		}
		at[line] = i
	}
	for i := range all {
		for k := range each * per { // in the order of the commands, and within each in that of sending
			line := fmt.Sprintf("shop:%d-%d/%d", i, k/per, k%per)
			if _, ok := at[line]; !ok {
				t.Fatalf("%s is missing", line)
			}
			if before := fmt.Sprintf("shop:%d-%d/%d", i, (k-1)/per, (k-1)%per); k > 0 && at[before] > at[line] {
				t.Errorf("%s before %s", line, before)
			}
		}
	}
	// What was handed over is not kept.
	for _, m := range all {
		await(t, "an empty outbox", func() bool { return m.shop.Outgoing() == 0 })
	}
}

func TestWhatAHandlerSentBeforeARestartIsExecutedOnce(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	addrs := []string{testutil.FreeAddress(t), testutil.FreeAddress(t)}
	n := 0
	for range 3 {
		all := openTrade(t, 2, squall.Persistent, func(i int, c *squall.Config) { c.Dir, c.Listen, c.Join = dirs[i], addrs[i], addrs })
		for range 20 {
			if _, err := place.Call(t.Context(), all[0].shop, order{fmt.Sprint(n), 1}); err != nil {
				t.Fatal(err)
			}
			n++
		}
		closeTrade(t, all) // some of it is not handed over
	}
	all := openTrade(t, 2, squall.Persistent, func(i int, c *squall.Config) { c.Dir, c.Listen, c.Join = dirs[i], addrs[i], addrs })
	got := lines(t, all[1].book, n)
	orders, err := placed.Call(t.Context(), all[1].shop, "")
	if err != nil || orders != n {
		t.Errorf("%d orders, %v; want %d", orders, err, n)
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("shop:%d/0", i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the book has %v", got)
	}
}

// RO9: what its destination has not executed is still there.
func TestWhatAHandlerSentIsKeptUntilItIsExecuted(t *testing.T) {
	t.Parallel()
	s := newShop(squall.Ordered)
	began, release := make(chan struct{}), make(chan struct{})
	slow := member.New(squall.SubgroupConfig{Name: "book", AsyncQueueBytes: 1 << 20}, func() *book { return &book{} },
		member.Handle(note, func(b *book, c *member.Context, line string) (int, error) {
			close(began)
			<-release
			return b.note(c, line)
		}))
	g, err := member.Open(t.Context(), squall.Config{Cluster: "test", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet}, s, slow)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	if _, err := place.Call(t.Context(), s, order{"ann", 1}); err != nil {
		t.Fatal(err)
	}
	<-began
	for range 100 {
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := s.Outgoing(); n != 1 {
			t.Fatalf("%d are kept while one is executed", n)
		}
	}
	close(release)
	await(t, "an empty outbox", func() bool { return s.Outgoing() == 0 })
}

// A first member sends what the handlers of an object sent. When it ends, another one does.
func TestAHandlerSendsToItsOwnObjectToSubgroupsAndStartsTasks(t *testing.T) {
	t.Parallel()
	type tally struct{ Left, Steps int }
	step := replicated.NewCommand[int, int]("step")
	failures := 2
	type seen struct {
		sync.Mutex
		messages, tasks []string
	}
	var got [2]seen
	all := open(t, 2, func(i int) *member.Object[*tally] {
		o := member.New(squall.SubgroupConfig{Name: "tally"}, func() *tally { return &tally{} },
			member.Handle(step, func(s *tally, c *member.Context, n int) (int, error) {
				s.Steps++
				text := fmt.Sprint(c.Caller.Object, n)
				if err := errors.Join(c.Message("plain", []byte(text)), c.Start("job", []byte(text))); err != nil {
					return 0, err
				}
				if n == 0 {
					return 0, nil
				}
				return n, member.Send(c, "tally", step, n-1)
			}))
		o.HandleTask("job", func(ctx context.Context, task member.Task) error {
			got[i].Lock()
			if failures > 0 {
				failures--
				got[i].Unlock()
				return errors.New("not yet")
			}
			got[i].tasks = append(got[i].tasks, string(task.Data))
			got[i].Unlock()
			return o.Sync(ctx) // a task may wait
		})
		return o
	}, func(i int, c *squall.Config) {
		c.Subgroups = append(c.Subgroups, squall.SubgroupConfig{Name: "plain", Deliver: func(m squall.Message) {
			got[i].Lock()
			got[i].messages = append(got[i].messages, string(m.Data))
			got[i].Unlock()
		}})
	})
	if _, err := step.Call(t.Context(), all[1].bank, 3); err != nil {
		t.Fatal(err)
	}
	want := []string{"3", "tally2", "tally1", "tally0"}
	await(t, "messages at both members, and tasks at the first", func() bool {
		for i := range got {
			got[i].Lock()
			defer got[i].Unlock()
		}
		return slices.Equal(got[0].messages, want) && slices.Equal(got[1].messages, want) && slices.Equal(got[0].tasks, want) && len(got[1].tasks) == 0
	})
	for _, m := range all {
		await(t, "an empty outbox", func() bool { return m.bank.Outgoing() == 0 })
	}
	if err := all[0].group.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := step.Call(t.Context(), all[1].bank, 0); err != nil {
		t.Fatal(err)
	}
	await(t, "a task at the other member", func() bool {
		got[1].Lock()
		defer got[1].Unlock()
		return slices.Equal(got[1].tasks, []string{"0"})
	})
}

func TestAnOutboxIsBounded(t *testing.T) {
	t.Parallel()
	type stock struct{ Sent int }
	fill := replicated.NewCommand[int, int]("fill")
	all := open(t, 2, func(int) *member.Object[*stock] {
		return member.New(squall.SubgroupConfig{Name: "stock"}, func() *stock { return &stock{} },
			member.Handle(fill, func(s *stock, c *member.Context, n int) (int, error) {
				for range n {
					if err := member.Send(c, "no such object", note, string(make([]byte, 1<<10))); err != nil {
						return s.Sent, err
					}
					s.Sent++
				}
				return s.Sent, nil
			}))
	}, nil)
	var failed *replicated.HandlerError
	for {
		if _, err := fill.Call(t.Context(), all[0].bank, 100); errors.As(err, &failed) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := all[1].bank.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	var sent [2]int
	for i, m := range all {
		m.bank.View(func(s *stock) { sent[i] = s.Sent })
	}
	if sent[0] != sent[1] || sent[0] < 3000 || all[0].bank.Outgoing() != sent[0] {
		t.Errorf("the members sent %v before %v; %d wait", sent, failed, all[0].bank.Outgoing())
	}
}

func TestWhatNoMessageCarriesIsDroppedInItsTurn(t *testing.T) {
	t.Parallel()
	type printer struct{ N int }
	print := replicated.NewCommand[[]int, int]("print")
	all := &trade{book: newBook(squall.Ordered)}
	p := member.New(squall.SubgroupConfig{Name: "printer"}, func() *printer { return &printer{} },
		member.Handle(print, func(s *printer, c *member.Context, sizes []int) (int, error) {
			for _, n := range sizes {
				s.N++
				if err := member.Send(c, "book", note, fmt.Sprint(s.N, string(make([]byte, n)))); err != nil {
					return 0, err
				}
			}
			return s.N, nil
		}))
	g, err := member.Open(t.Context(), squall.Config{Cluster: "test", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet}, p, all.book)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	large := all.book.Subgroup().MaxMessageBytes()
	if large > 3<<20 {
		t.Fatalf("a message may have %d bytes: more than an outbox", large)
	}
	if _, err := print.Call(t.Context(), p, []int{1, large, 1, large}); err != nil {
		t.Fatal(err)
	}
	got := lines(t, all.book, 2)
	if len(got) != 2 || got[0] != "printer:1\x00" || got[1] != "printer:3\x00" {
		t.Errorf("the book has %.20q", got)
	}
	await(t, "an empty outbox", func() bool { return p.Outgoing() == 0 })
}

// TestWhatAHandlerSendsIsExecutedOnceWhateverIsKilled kills members with SIGKILL, each time the one
// that hands over what handlers send, while clients call them. The book has every line that was
// sent, once.
func TestWhatAHandlerSendsIsExecutedOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, false, true)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const clients, per = 4, 3
	var wg sync.WaitGroup
	var mu sync.Mutex
	calls := 0
	var placedBy [clients]int
	for i := range clients {
		c := dial(t, replicated.ClientConfig{Addresses: f.clients()})
		wg.Go(func() {
			for ctx.Err() == nil {
				calling, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				_, err := place.Call(calling, c.Object("shop"), order{fmt.Sprintf("%d-%d", i, placedBy[i]), per})
				cancel()
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				mu.Lock()
				placedBy[i]++
				calls++
				mu.Unlock()
			}
		})
	}
	for lap := range *kills {
		victim := lap % len(f.all) // the most senior one, which is the relay
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
	total := 0
	for _, n := range placedBy {
		total += per * n
	}
	c := dial(t, replicated.ClientConfig{Addresses: f.clients()})
	var got []string
	await(t, fmt.Sprintf("%d lines", total), func() bool {
		n, err := counted.Call(t.Context(), c.Object("book"), "")
		if err != nil {
			t.Error(err)
		}
		return n >= total
	})
	for from := 0; from < total; from += 300 {
		page, err := paged.Call(t.Context(), c.Object("book"), from)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
	}
	seen := map[string]bool{}
	for _, line := range got {
		if seen[line] {
			t.Errorf("%s is there twice", line)
		}
		seen[line] = true
	}
	for i, n := range placedBy {
		for k := range n * per {
			if line := fmt.Sprintf("shop:%d-%d/%d", i, k/per, k%per); !seen[line] {
				t.Errorf("%s is missing", line)
			}
		}
	}
	t.Logf("%d orders of %d lines", calls, per)
	if len(got) != total {
		t.Errorf("%d lines, want %d", len(got), total)
	}
}
