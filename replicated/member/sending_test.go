package member_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

// diary is the state of an object that notes its commands.
type diary struct {
	Entries []entry
}

// entry is one command.
type entry struct {
	Text    string
	Version squall.Version
	Index   uint64
	Drawn   uint64
}

var write = replicated.NewCommand[[]byte, []byte]("write")

func (d *diary) write(c *member.Context, text []byte) ([]byte, error) {
	d.Entries = append(d.Entries, entry{string(text[:min(len(text), 20)]), c.Version, c.Index, c.Rand().Uint64()})
	return nil, nil
}

func diaries(sg squall.SubgroupConfig) func(int) *member.Object[*diary] {
	sg.Name = "diary"
	return func(int) *member.Object[*diary] {
		return member.New(sg, func() *diary { return &diary{} }, member.Handle(write, (*diary).write))
	}
}

// entries returns the entries of a member that has executed all commands.
func entries(t *testing.T, m *node[*diary]) (all []entry) {
	t.Helper()
	if err := m.bank.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.bank.View(func(d *diary) { all = append(all, d.Entries...) })
	return all
}

// inOrder checks that the entries of each writer are all there, in their order, and that none is
// like another one.
func inOrder(t *testing.T, all []entry, writers, each int) (shared int) {
	t.Helper()
	if len(all) != writers*each {
		t.Errorf("%d entries, want %d", len(all), writers*each)
	}
	next, places, numbers := make([]int, writers), map[string]bool{}, map[uint64]bool{}
	for i, e := range all {
		var writer, n int
		if _, err := fmt.Sscan(e.Text, &writer, &n); err != nil || n != next[writer] {
			t.Fatalf("entry %d is %q, and entry %d of that writer is next, %v", i, e.Text, next[writer], err)
		}
		next[writer]++
		if e.Index > 0 {
			shared++
		}
		if i > 0 && (e.Version.Before(all[i-1].Version) || e.Version == all[i-1].Version && e.Index != all[i-1].Index+1 || e.Version != all[i-1].Version && e.Index != 0) {
			t.Errorf("entry %d is %v, and %v comes before", i, e, all[i-1])
		}
		places[fmt.Sprint(e.Version, e.Index)], numbers[e.Drawn] = true, true
	}
	if len(places) != len(all) || len(numbers) != len(all) {
		t.Errorf("%d entries have %d places, and drew %d numbers", len(all), len(places), len(numbers))
	}
	return shared
}

// writeAll has a goroutine call commands without waiting for one before the next, of which every so
// many-th is long. It returns how they ended.
func writeAll(ctx context.Context, o replicated.Target, writer, each, long, size int) error {
	var all []*replicated.Future[[]byte]
	for n := range each {
		text := fmt.Appendf(nil, "%d %d ", writer, n)
		if long > 0 && n%long == long-1 {
			text = append(text, make([]byte, size)...)
		}
		f, err := write.Go(ctx, o, text)
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	for _, f := range all {
		if _, err := f.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// TestCommandsThatShareMessagesKeepTheirOrder has many goroutines of all members call commands of
// all sizes, in rings that hold few of them.
func TestCommandsThatShareMessagesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const members, writers, each = 3, 4, 200
	for _, c := range []struct {
		name       string
		sg         squall.SubgroupConfig
		long, size int
	}{
		{"in a ring with room", squall.SubgroupConfig{}, 0, 0},
		{"in a ring without room", squall.SubgroupConfig{RingBytes: 4 << 10, Window: 16}, 0, 0},
		{"some that are too long to share a message", squall.SubgroupConfig{RingBytes: 8 << 10}, 7, 3 << 10},
		{"some that are large messages", squall.SubgroupConfig{RingBytes: 8 << 10, MaxMessageBytes: 1 << 20}, 50, 20 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := open(t, members, diaries(c.sg), nil)
			var wg sync.WaitGroup
			for i := range members * writers {
				wg.Go(func() {
					if err := writeAll(t.Context(), all[i%members].bank, i, each, c.long, c.size); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			want := entries(t, all[0])
			if shared := inOrder(t, want, members*writers, each); shared == 0 {
				t.Error("no commands shared a message")
			}
			for _, m := range all[1:] {
				if got := entries(t, m); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Error("the copies differ")
				}
			}
		})
	}
}

// TestWhatWasCalledIsExecutedBeforeAMemberLeaves closes a group right after calls whose outcomes
// nothing has awaited.
func TestWhatWasCalledIsExecutedBeforeAMemberLeaves(t *testing.T) {
	t.Parallel()
	const n = 300
	all := open(t, 2, diaries(squall.SubgroupConfig{RingBytes: 8 << 10}), nil)
	var futures []*replicated.Future[[]byte]
	for i := range n {
		f, err := write.Go(t.Context(), all[1].bank, fmt.Appendf(nil, "0 %d", i))
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, f)
	}
	if err := all[1].group.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, f := range futures {
		if _, err := f.Wait(t.Context()); err != nil {
			t.Fatalf("command %d: %v", i, err)
		}
	}
	inOrder(t, entries(t, all[0]), 1, n)
	if _, err := write.Go(t.Context(), all[1].bank, nil); !errors.Is(err, squall.ErrClosed) {
		t.Errorf("a call of a member that has left: %v", err)
	}
}

// TestAnObjectIsRecoveredFromMessagesWithSeveralCommands starts members again with their logs.
func TestAnObjectIsRecoveredFromMessagesWithSeveralCommands(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	persistent := diaries(squall.SubgroupConfig{Mode: squall.Persistent})
	inDirs := func(i int, c *squall.Config) { c.Dir = dirs[i] }
	all := open(t, 2, persistent, inDirs)
	if err := writeAll(t.Context(), all[0].bank, 0, 500, 0, 0); err != nil {
		t.Fatal(err)
	}
	want := entries(t, all[0])
	if shared := inOrder(t, want, 1, 500); shared == 0 {
		t.Error("no commands shared a message")
	}
	closeAll(t, all)
	all = open(t, 2, persistent, inDirs)
	if got := entries(t, all[1]); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("what is recovered is not what was")
	}
}

// TestACallerThatWaitsForRoomMayLeave has callers wait for buffer space in a message behind a
// handler that does not return.
func TestACallerThatWaitsForRoomMayLeave(t *testing.T) {
	t.Parallel()
	blocked, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	var once sync.Once
	all := open(t, 1, func(int) *member.Object[*diary] {
		return member.New(squall.SubgroupConfig{Name: "diary", RingBytes: 4 << 10, Window: 16}, func() *diary { return &diary{} },
			member.Handle(write, func(d *diary, c *member.Context, text []byte) ([]byte, error) {
				once.Do(func() { close(blocked); <-goOn })
				return d.write(c, text)
			}))
	}, nil)
	defer release()
	o := all[0].bank
	if _, err := write.Go(t.Context(), o, []byte("0 0")); err != nil {
		t.Fatal(err)
	}
	<-blocked
	n := 1
	var futures []*replicated.Future[[]byte]
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for ; ctx.Err() == nil; n++ { // until nothing takes any more
		f, err := write.Go(ctx, o, append(fmt.Appendf(nil, "0 %d ", n), make([]byte, 100)...))
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
		futures = append(futures, f)
	}
	late, end := context.WithCancel(t.Context())
	end()
	if _, err := write.Call(late, o, bytes.Repeat([]byte("x"), 150)); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended: %v", err)
	}
	release()
	for i, f := range futures {
		if _, err := f.Wait(t.Context()); err != nil {
			t.Fatalf("command %d: %v", 1+i, err)
		}
	}
	if got := entries(t, all[0]); len(got) != n {
		t.Errorf("%d commands were executed, want %d: %v", len(got), n, got)
	}
}
