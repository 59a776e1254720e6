package logwire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
)

func TestAReaderGetsWhatIsInTheLog(t *testing.T) {
	t.Parallel()
	all := history(95)
	l := put(t, newLog(t, bolt.Engine), all...)
	c, ctx := newHost(t, l).client(), t.Context()

	infos, err := c.List(ctx)
	if err != nil || len(infos) != 1 || infos[0].ID != prices || infos[0].Count != 95 || infos[0].Last.Version != all[94].Version {
		t.Fatalf("%+v, %v", infos, err)
	}
	if i, err := c.Info(ctx, prices); err != nil || i.First.Time != all[0].Time || i.Bytes == 0 || i.Engine != "bolt" {
		t.Fatalf("%+v, %v", i, err)
	}
	for name, c := range map[string]struct{ got, want []persist.Record }{
		"all":           {collect(t, c.Range(ctx, prices, order.Version{}, order.Version{})), all},
		"from a view":   {collect(t, c.Range(ctx, prices, order.Version{View: 4}, order.Version{})), all[30:]},
		"between two":   {collect(t, c.Range(ctx, prices, order.Version{View: 4}, order.Version{View: 5})), all[30:40]},
		"after the end": {collect(t, c.Range(ctx, prices, order.Version{View: 50}, order.Version{})), nil},
		"by time":       {collect(t, c.Between(ctx, prices, all[7].Time-1, all[9].Time)), all[7:9]},
		"since":         {collect(t, c.Between(ctx, prices, all[90].Time, 0)), all[90:]},
	} {
		if !alike(c.got, c.want) {
			t.Errorf("%s: %v, not %v", name, c.got, c.want)
		}
	}
	for n := range all {
		if r, err := c.Get(ctx, prices, all[n].Version); err != nil || !alike([]persist.Record{r}, all[n:n+1]) || r.Number != uint64(n) {
			t.Fatalf("record %d is %v, %v", n, r, err)
		}
		if r, err := c.At(ctx, prices, all[n].Time+999); err != nil || r.Version != all[n].Version {
			t.Fatalf("record %d by time is %v, %v", n, r, err)
		}
		if r, err := c.Nth(ctx, prices, uint64(n)); err != nil || r.Version != all[n].Version {
			t.Fatalf("record %d by number is %v, %v", n, r, err)
		}
	}
}

func TestWhatIsNotThereHasANamedError(t *testing.T) {
	t.Parallel()
	l := put(t, newLog(t, bolt.Engine), history(30)...)
	snapshot(t, l, order.Version{View: 1, Seq: 18}, "the first view")
	h, ctx := newHost(t, l), t.Context()
	c := h.client()
	other := &Client{Dial: h.dial, Cluster: "another", Times: quick}
	first := func(c *Client, from order.Version) error {
		for _, err := range c.Range(ctx, prices, from, order.Version{}) {
			return err
		}
		return nil
	}
	for name, fault := range map[string]struct{ got, want error }{
		"a version":          {second(c.Get(ctx, prices, order.Version{View: 2, Seq: 1})), persist.ErrNotFound},
		"a number":           {second(c.Nth(ctx, prices, 30)), persist.ErrNotFound},
		"a number in front":  {second(c.Nth(ctx, prices, 3)), persist.ErrTruncated},
		"a version in front": {first(c, order.Version{View: 1, Seq: 4}), persist.ErrTruncated},
		"a log":              {second(c.Info(ctx, persist.LogID{Name: "orders"})), ErrNoLog},
		"a cluster":          {second(other.List(ctx)), ErrOtherCluster},
	} {
		if !errors.Is(fault.got, fault.want) {
			t.Errorf("%s: %v, not %v", name, fault.got, fault.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestRecordsOfEverySizeArriveWhole(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	var all []persist.Record
	for n, size := range []int{0, 1, frameBytes - 100, frameBytes - 60, frameBytes - 1, frameBytes, frameBytes + 1, 5 << 20, 0, 100, 100, frameBytes / 2, frameBytes / 2} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		all = append(all, record(n, data))
	}
	l := put(t, newLog(t, wal.Engine), all...)
	h := newHost(t, l)
	if got := collect(t, h.client().Range(t.Context(), prices, order.Version{}, order.Version{})); !alike(got, all) {
		t.Fatal("they are different")
	}
	small := h.client()
	small.MaxRecord = 1 << 20
	for _, err := range small.Range(t.Context(), prices, order.Version{}, order.Version{}) {
		if err != nil {
			if !errors.Is(err, ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("a record larger than allowed was taken")
}

func TestAFollowerGetsWhatComesAcrossViews(t *testing.T) {
	t.Parallel()
	all := history(60)
	l := put(t, newLog(t, bolt.Engine), all[:5]...)
	c := newHost(t, l).client()
	next := 3
	for r, err := range c.Tail(t.Context(), prices, all[3].Version) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Version != all[next].Version || !bytes.Equal(r.Data, all[next].Data) {
			t.Fatalf("%v, not %v", r, all[next])
		}
		if next++; next == len(all) {
			return
		}
		if next >= 5 {
			put(t, l, all[next])
		}
	}
	t.Fatal("it ended")
}

func TestAFollowerWaitsAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l := put(t, newLog(t, bolt.Engine), history(2)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for _, err := range newHost(t, l).client().Tail(ctx, prices, order.Version{}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) || seen != 2 {
				t.Fatalf("after %d records: %v", seen, err)
			}
			return
		}
		if seen++; seen == 2 {
			cancel()
		}
	}
	t.Fatal("it ended without an error")
}

func TestAStreamGoesOnWhereAConnectionBroke(t *testing.T) {
	t.Parallel()
	all := history(500)
	l := put(t, newLog(t, bolt.Engine), all...)
	for seed := range uint64(10) {
		h := newHost(t, l)
		h.cut = breaks(rand.New(rand.NewPCG(seed, 0)), 60_000) // a stream has some 12,000 bytes
		c := h.client()
		if got := collect(t, retried(t, c, all)); !alike(got, all) {
			t.Fatalf("seed %d: %d records, not %d", seed, len(got), len(all))
		}
	}
}

func TestAFollowerWaitsForAMemberThatIsGoneAndMissesNothing(t *testing.T) {
	t.Parallel()
	all := history(40)
	l := put(t, newLog(t, bolt.Engine), all[:10]...)
	h := newHost(t, l)
	gone, next, told := 0, 0, []string{}
	c := &Client{
		Times: quick, Lost: func(error) { told = append(told, "lost") }, Back: func() { told = append(told, "back") },
		Dial: func(ctx context.Context) (net.Conn, error) {
			if gone == 0 {
				return h.dial(ctx)
			}
			if gone--; gone == 0 { // it was started again, and has more
				put(t, l, all[next:next+10]...)
				h = newHost(t, l)
			}
			return nil, errors.New("connection refused")
		},
	}
	for r, err := range c.Tail(t.Context(), prices, order.Version{}) {
		if err != nil || r.Version != all[next].Version {
			t.Fatalf("%v, not %v: %v", r, all[next], err)
		}
		if next++; next == len(all) {
			break
		}
		if next%10 == 0 {
			h.close()
			gone = 3 * maxTries
		}
	}
	if want := []string{"lost", "back", "lost", "back", "lost", "back"}; !slices.Equal(told, want) {
		t.Errorf("it was told %v", told)
	}
}

// large are records that need several frames, of which some come within earlyBytes.
func large() (all []persist.Record) {
	for n := range 10 {
		all = append(all, record(n, make([]byte, frameBytes/2)))
	}
	return all
}

const earlyBytes = 3 * frameBytes

func TestAFollowerWaitsUntilAMemberThatWasStartedAgainHasItsLogs(t *testing.T) {
	t.Parallel()
	l := put(t, newLog(t, bolt.Engine), large()...)
	asked, next := 0, 0
	h := newHost(t, l, func(c *ServerConfig) {
		find := c.Find
		c.Find = func(id persist.LogID) *persist.Log {
			if asked++; 1 < asked && asked < 3*maxTries {
				return nil
			}
			return find(id)
		}
	})
	h.cut = func(c net.Conn) net.Conn {
		if next == 0 {
			return &fragile{c, earlyBytes}
		}
		return c
	}
	told := 0
	c := h.client()
	c.Lost = func(error) { told++ }
	for r, err := range c.Tail(t.Context(), prices, order.Version{}) {
		if err != nil || r.Number != uint64(next) {
			t.Fatalf("%v, not %d: %v", r, next, err)
		}
		if next++; next == 10 {
			break
		}
	}
	if asked < 3*maxTries || told != 1 {
		t.Errorf("asked %d times, told %d times that it is gone", asked, told)
	}
}

func TestWhoeverDoesNotFollowEndsSoonWithoutTheMember(t *testing.T) {
	t.Parallel()
	h := newHost(t, put(t, newLog(t, bolt.Engine), large()...))
	for name, read := range map[string]func(c *Client) iter.Seq2[persist.Record, error]{
		"a range": func(c *Client) iter.Seq2[persist.Record, error] {
			return c.Range(t.Context(), prices, order.Version{}, order.Version{})
		},
		"a follower without a member": func(c *Client) iter.Seq2[persist.Record, error] {
			c.Dial = func(context.Context) (net.Conn, error) { return nil, errors.New("connection refused") }
			return c.Tail(t.Context(), prices, order.Version{})
		},
	} {
		c := h.client()
		dialled, dial := 0, c.Dial
		c.Dial = func(ctx context.Context) (net.Conn, error) {
			if dialled++; dialled > 1 {
				return nil, errors.New("connection refused")
			}
			conn, err := dial(ctx)
			return &fragile{conn, earlyBytes}, err
		}
		var last error
		for _, last = range read(c) {
		}
		if !errors.Is(last, errNobody) || dialled > maxTries {
			t.Errorf("%s: %d connections, %v", name, dialled, last)
		}
	}
}

// retried reads all, from the start if the very first connection breaks before a record came.
func retried(t *testing.T, c *Client, all []persist.Record) func(func(persist.Record, error) bool) {
	return func(yield func(persist.Record, error) bool) {
		for range 100 {
			count := 0
			for r, err := range c.Range(t.Context(), prices, order.Version{}, order.Version{}) {
				if err != nil && count == 0 {
					break
				}
				if count++; !yield(r, err) {
					return
				}
			}
			if count == len(all) {
				return
			}
		}
	}
}

func TestASnapshotArrivesWithWhatItStandsFor(t *testing.T) {
	t.Parallel()
	all := history(30)
	l := put(t, newLog(t, bolt.Engine), all...)
	content := strings.Repeat("state ", 300_000)
	snapshot(t, l, all[9].Version, content)
	at, r, err := newHost(t, l).client().Snapshot(t.Context(), prices)
	if err != nil || at.Version != all[9].Version || at.Time != all[9].Time || at.Sender != all[9].Sender || at.Number != 9 {
		t.Fatalf("%v, %v", at, err)
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != content {
		t.Fatalf("%d bytes, not %d: %v", len(got), len(content), err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := newHost(t, newLog(t, bolt.Engine)).client().Snapshot(t.Context(), prices); !errors.Is(err, persist.ErrNotFound) {
		t.Fatal(err)
	}
}
