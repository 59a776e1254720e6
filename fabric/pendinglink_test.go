package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/squall-go/squall/order"
)

// connector notes what a table wants of it.
type connector struct {
	cancelled []order.Rank
	closed    bool
}

func (c *connector) Cancel(r order.Rank) { c.cancelled = append(c.cancelled, r) }
func (c *connector) Close()              { c.closed = true }

// plainLink notes what it is told.
type plainLink struct {
	row    []byte
	said   []string
	frozen bool
	closed atomic.Int32
}

func newPlainLink() *plainLink {
	mem, _, err := NewMemory(2 * LineBytes)
	if err != nil {
		panic(err)
	}
	return &plainLink{row: mem}
}

func (l *plainLink) Name() string         { return "plain" }
func (l *plainLink) Direct() bool         { return false }
func (l *plainLink) Replica() []byte      { return l.row }
func (l *plainLink) Push(off, n int)      { l.said = append(l.said, fmt.Sprintf("bytes %d+%d", off, n)) }
func (l *plainLink) PushLine(off int)     { l.said = append(l.said, fmt.Sprint("line ", off)) }
func (l *plainLink) Poll() (bool, error)  { return false, nil }
func (l *plainLink) Flush() (bool, error) { l.said = append(l.said, "flush"); return true, nil }
func (l *plainLink) Freeze() []byte       { l.frozen = true; return l.row }
func (l *plainLink) Close() error         { l.closed.Add(1); return nil }

// comingTable is rank 0 of three, none of whose links is up, and the rows that moved.
func comingTable(t *testing.T) (table *Table, c *connector, moved *[]order.Rank) {
	t.Helper()
	shape := RowShape{LineBytes, 2 * LineBytes}
	spec := &Spec{Peers: []Peer{{ID: 1, Shape: shape}, {ID: 2, Shape: shape}, {ID: 3, Shape: shape}}}
	c, moved = &connector{}, new([]order.Rank)
	table, err := OpenTable(spec, newPlainLink().row, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	table.OnMove(func(r order.Rank) { *moved = append(*moved, r) })
	return table, c, moved
}

// A loop that sleeps takes a link in when it comes up, and a failure when it cannot: nothing else
// may wake it for long.
func TestALinkThatComesUpWakesTheLoop(t *testing.T) {
	p, err := NewParker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	shape := RowShape{LineBytes, 2 * LineBytes}
	spec := &Spec{Peers: []Peer{{ID: 1, Shape: shape}, {ID: 2, Shape: shape}, {ID: 3, Shape: shape}}, Parker: p}
	table, err := OpenTable(spec, newPlainLink().row, &connector{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, arrive := range map[string]func(){
		"a link":    func() { table.Arrive(1, newPlainLink(), nil) },
		"a failure": func() { table.Arrive(2, nil, ErrRefused) },
	} {
		p.Announce()
		arrive()
		woke := make(chan struct{})
		go func() {
			defer close(woke)
			p.Sleep(-1)
		}()
		select {
		case <-woke:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s came, and the loop sleeps", what)
		}
		p.Retract()
		if table.Poll() != 1 {
			t.Errorf("%s came, and there is no work", what)
		}
	}
}

// F6
func TestWhatWasPushedBeforeALinkCameUpIsReplayedBytesFirst(t *testing.T) {
	table, _, moved := comingTable(t)
	peers := []order.Rank{0, 1, 2}
	table.PushLine(peers, 0)
	table.Push(peers, LineBytes, 8)
	table.Push(peers, LineBytes+8, 8)
	table.PushLineQuietly(peers, 0)
	if table.Poll() != 0 || table.Flush() != 0 || table.Linked(1) || table.LinkName(1) != "pending" {
		t.Fatal("a link is there that did not come up")
	}
	if !slices.Equal(table.Row(1), make([]byte, 2*LineBytes)) {
		t.Fatalf("a row without a link is %v", table.Row(1))
	}
	link := newPlainLink()
	link.row[0] = 7
	table.Arrive(1, link, nil)
	if table.Linked(1) || table.Row(1)[0] != 0 {
		t.Fatal("the row moved outside of Poll")
	}
	if table.Poll() != 1 || !table.Linked(1) || table.Linked(2) || table.Row(1)[0] != 7 || table.LinkName(1) != "plain" {
		t.Fatal("the link was not taken in by Poll")
	}
	if want := []string{fmt.Sprintf("bytes %d+16", LineBytes), "line 0"}; !slices.Equal(link.said, want) {
		t.Errorf("replayed %q, not %q", link.said, want)
	}
	if !slices.Equal(*moved, []order.Rank{1}) {
		t.Errorf("moved: %v", *moved)
	}
}

func TestRowsWithoutALinkShareOneSlabOfZeros(t *testing.T) {
	table, _, _ := comingTable(t)
	if &table.Row(1)[0] != &table.Row(2)[0] || uintptr(unsafe.Pointer(&table.Row(1)[0]))%LineBytes != 0 {
		t.Error("each has zeros of its own")
	}
}

// F5
func TestALinkThatCannotComeUpIsAFailure(t *testing.T) {
	table, c, moved := comingTable(t)
	refused := fmt.Errorf("%w: for a test", ErrRefused)
	table.Arrive(2, nil, refused)
	table.Arrive(2, nil, refused)
	table.Poll()
	table.Poll()
	if f := table.Failures(); len(f) != 1 || f[0].Rank != 2 || !errors.Is(f[0].Err, ErrRefused) {
		t.Errorf("failures: %v", f)
	}
	if !table.Frozen(2) || !slices.Equal(c.cancelled, []order.Rank{2}) || !slices.Equal(*moved, []order.Rank{2}) {
		t.Errorf("frozen %v, cancelled %v, moved %v", table.Frozen(2), c.cancelled, *moved)
	}
}

// F4
func TestFreezingAComingLinkGivesItUpForGood(t *testing.T) {
	table, c, moved := comingTable(t)
	table.Freeze(1)
	table.Freeze(1)
	if !slices.Equal(c.cancelled, []order.Rank{1}) || !slices.Equal(*moved, []order.Rank{1}) {
		t.Errorf("cancelled %v, moved %v", c.cancelled, *moved)
	}
	late := newPlainLink()
	late.row[0] = 7
	table.Arrive(1, late, nil)
	table.Poll()
	if late.closed.Load() != 1 || table.Row(1)[0] != 0 || table.Linked(1) || len(table.Failures()) > 0 {
		t.Errorf("closed %d times, row %v", late.closed.Load(), table.Row(1)[0])
	}
}

func TestALinkThatIsHereWhenItsRowIsFrozenIsFrozenLikeAnyOther(t *testing.T) {
	table, c, _ := comingTable(t)
	table.PushLine([]order.Rank{1}, 0)
	link := newPlainLink()
	table.Arrive(1, link, nil)
	table.Freeze(1)
	if !slices.Equal(link.said, []string{"line 0"}) || !link.frozen || len(c.cancelled) > 0 {
		t.Errorf("said %q, frozen %v, cancelled %v", link.said, link.frozen, c.cancelled)
	}
	if table.Poll() != 0 {
		t.Error("it is taken in twice")
	}
}

func TestCloseEndsWhoConnectsAndClosesWhatWaits(t *testing.T) {
	table, c, _ := comingTable(t)
	waits, late := newPlainLink(), newPlainLink()
	table.Arrive(1, waits, nil)
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	table.Arrive(2, late, nil)
	if !c.closed || waits.closed.Load() != 1 || late.closed.Load() != 1 {
		t.Errorf("closed: the connecting goroutine %v, the link that waits %d times, the late one %d times", c.closed, waits.closed.Load(), late.closed.Load())
	}
}

func TestAwaitEndsWithAllLinksOrAFailureOrItsContext(t *testing.T) {
	table, _, _ := comingTable(t)
	var connecting sync.WaitGroup
	for r := order.Rank(1); r < 3; r++ {
		connecting.Go(func() { table.Arrive(r, newPlainLink(), nil) })
	}
	if err := table.Await(t.Context()); err != nil || !table.Linked(1) || !table.Linked(2) {
		t.Errorf("%v", err)
	}
	connecting.Wait()

	table, _, _ = comingTable(t)
	table.Arrive(1, nil, ErrRefused)
	if err := table.Await(t.Context()); !errors.Is(err, ErrRefused) || len(table.Failures()) != 1 {
		t.Errorf("%v", err)
	}

	table, _, _ = comingTable(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := table.Await(ctx); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
}

// A hook may freeze other rows, also one whose link arrived at the same time.
func TestAHookMayFreezeARowWhoseLinkIsAboutToBeTakenIn(t *testing.T) {
	table, _, _ := comingTable(t)
	first, second := newPlainLink(), newPlainLink()
	table.OnMove(func(r order.Rank) {
		if r == 1 {
			table.Freeze(2)
		}
	})
	table.Arrive(1, first, nil)
	table.Arrive(2, second, nil)
	table.Poll()
	if !table.Linked(1) || table.Linked(2) || !second.frozen || table.pending != 0 {
		t.Errorf("linked %v and %v, frozen %v, pending %d", table.Linked(1), table.Linked(2), second.frozen, table.pending)
	}
}

func BenchmarkPollWhileALinkIsComing(b *testing.B) {
	shape := RowShape{LineBytes, 2 * LineBytes}
	spec := &Spec{Peers: []Peer{{Shape: shape}, {Shape: shape}, {Shape: shape}}}
	table, err := OpenTable(spec, newPlainLink().row, &connector{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	table.Arrive(1, newPlainLink(), nil)
	for b.Loop() {
		table.Poll()
	}
}
