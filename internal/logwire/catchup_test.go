package logwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
)

// fork is a history that is another one from record n on.
func fork(all []persist.Record, n int) []persist.Record {
	other := append([]persist.Record(nil), all...)
	for i := n; i < len(other); i++ {
		other[i].Data = bytes.ToUpper(other[i].Data) // of the same length
	}
	return other
}

func TestLW3ALogBecomesThatOfItsSource(t *testing.T) {
	t.Parallel()
	all := history(100)
	thinned := append(append([]persist.Record(nil), all[:40]...), all[60:]...)
	for name, c := range map[string]struct {
		own, source []persist.Record
		before      order.Version
		want        int // records
		common, cut int
	}{
		"empty":                              {nil, all, order.Version{}, 100, 0, 0},
		"behind":                             {all[:37], all, order.Version{}, 100, 37, 0},
		"the same":                           {all, all, order.Version{}, 100, 100, 0},
		"up to a view":                       {all[:37], all, order.Version{View: 8}, 70, 37, 0},
		"beyond a view":                      {all, all, order.Version{View: 8}, 70, 70, 30},
		"up to the last record":              {all[:37], all, catchup.After(all[99].Version), 100, 37, 0},
		"a tail that the source lacks":       {all, all[:61], order.Version{}, 61, 61, 39},
		"a tail that is another one":         {fork(all, 90), all, order.Version{}, 100, 90, 10},
		"another one but for the first":      {fork(all, 1), all, order.Version{}, 100, 1, 99},
		"another one altogether":             {fork(all, 0), all, order.Version{}, 100, 0, 100},
		"records in the middle are missing":  {thinned, all, order.Version{}, 100, 40, 40},
		"records in the middle are too many": {all, thinned, order.Version{}, 80, 40, 60},
		"the source is empty":                {all[:3], nil, order.Version{}, 0, 0, 3},
		"both are empty":                     {nil, nil, order.Version{}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, source := put(t, newLog(t, bolt.Engine), c.own...), newHost(t, put(t, newLog(t, wal.Engine), c.source...))
			if c.cut > 0 {
				r, err := bring(t, l, c.before, func(c *CatchUpConfig) { c.Keep = true }, source)
				if !errors.Is(err, ErrOther) || !alike(everything(t, l), c.own) {
					t.Fatalf("of a log of which nothing may be dropped: %+v, %v", r, err)
				}
			}
			r, err := bring(t, l, c.before, nil, source)
			if err != nil {
				t.Fatal(err)
			}
			if got := everything(t, l); !alike(got, c.source[:c.want]) {
				t.Fatalf("%d records, not %d", len(got), c.want)
			}
			common := order.Version{}
			if c.common > 0 {
				common = c.source[c.common-1].Version
			}
			if r.Common != common || int(r.Cut) != c.cut || int(r.Records) != c.want-c.common || r.Snapshot != (order.Version{}) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestALogBehindItsSourcesFirstRecordGetsTheSnapshot(t *testing.T) {
	t.Parallel()
	all := history(100)
	for name, own := range map[string][]persist.Record{"empty": nil, "old": all[:20], "another one": fork(all, 10)[:30]} {
		t.Run(name, func(t *testing.T) {
			source := put(t, newLog(t, bolt.Engine), all...)
			snapshot(t, source, all[59].Version, strings.Repeat("state", 1000))
			l := put(t, newLog(t, bolt.Engine), own...)
			r, err := bring(t, l, order.Version{}, nil, newHost(t, source))
			if err != nil || r.Snapshot != all[59].Version || !alike(everything(t, l), everything(t, source)) {
				t.Fatalf("%+v, %v", r, err)
			}
			at, content, err := l.OpenSnapshot()
			if err != nil || at.Version != all[59].Version {
				t.Fatal(at, err)
			}
			if err := content.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestALogThatReachesIntoItsSourceNeedsNoSnapshot(t *testing.T) {
	t.Parallel()
	all := history(100)
	source := put(t, newLog(t, bolt.Engine), all...)
	snapshot(t, source, all[59].Version, "state")
	for name, c := range map[string]struct {
		own    []persist.Record
		common int
	}{
		"up to the snapshot":              {all[:60], 60},
		"beyond it":                       {all[:75], 75},
		"with another tail, far":          {fork(all, 80), 80},
		"with another tail right after":   {fork(all, 60), 60},
		"that has a tail of another view": {append(all[:60:60], record(500, text(500))), 60},
	} {
		t.Run(name, func(t *testing.T) {
			l := put(t, newLog(t, bolt.Engine), c.own...)
			r, err := bring(t, l, order.Version{}, nil, newHost(t, source))
			if name == "that has a tail of another view" { // the probe finds the source's end, which is not here
				c.common = 60
			}
			if err != nil || r.Common != all[c.common-1].Version || r.Snapshot != (order.Version{}) || !alike(everything(t, l), all) {
				t.Fatalf("%+v, %v", r, err)
			}
		})
	}
}

func TestALogWithASnapshotOfItsOwnGoesOnBehindIt(t *testing.T) {
	t.Parallel()
	all := history(100)
	source := newHost(t, put(t, newLog(t, bolt.Engine), all...))
	for name, own := range map[string][]persist.Record{"alone": all[:20], "with records": all[:30], "with others": fork(all, 25)[:30]} {
		t.Run(name, func(t *testing.T) {
			l := put(t, newLog(t, bolt.Engine), own...)
			snapshot(t, l, all[19].Version, "state")
			r, err := bring(t, l, order.Version{}, nil, source)
			if err != nil || r.Snapshot != (order.Version{}) || !alike(everything(t, l), all[20:]) {
				t.Fatalf("%+v, %v", r, err)
			}
		})
	}
}

// A source of which a snapshot has taken all records waits for the next one as any other does.
func TestASourceWithNothingBehindItsSnapshotIsWaitedFor(t *testing.T) {
	t.Parallel()
	all := history(30)
	for name, own := range map[string][]persist.Record{"empty": nil, "as far": all[:10], "behind": all[:4]} {
		t.Run(name, func(t *testing.T) {
			source := put(t, newLog(t, bolt.Engine), all[:10]...)
			snapshot(t, source, all[9].Version, "state")
			l := put(t, newLog(t, bolt.Engine), own...)
			h := newHost(t, source)
			asked := h.asked()
			done := make(chan error, 1)
			go func() {
				_, err := bring(t, l, catchup.After(all[29].Version), nil, h)
				done <- err
			}()
			select {
			case <-asked.Done():
			case err := <-done:
				t.Fatalf("no process was waited for: %v", err)
			}
			put(t, source, all[10:]...)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			want := all[10:]
			if len(own) == 10 { // it needs no snapshot
				want = all
			}
			if got := everything(t, l); !alike(got, want) {
				t.Fatalf("%d records, not %d", len(got), len(want))
			}
		})
	}
}

func TestASourceIsWaitedForUntilItHasWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	all := history(30)
	source := put(t, newLog(t, bolt.Engine), all[:10]...)
	l := newLog(t, bolt.Engine)
	asked := make(chan struct{})
	h := newHost(t, source)
	h.cut = func(c net.Conn) net.Conn { close(asked); return c }
	done := make(chan error, 1)
	go func() {
		_, err := bring(t, l, catchup.After(all[29].Version), nil, h)
		done <- err
	}()
	<-asked
	put(t, source, all[10:]...)
	if err := <-done; err != nil || !alike(everything(t, l), all) {
		t.Fatal(err)
	}
}

// A position in front of which nothing was delivered last, only nulls, is reached when the source's
// group says so.
func TestAnotherSourceGoesOnWhereOneFailed(t *testing.T) {
	t.Parallel()
	all := make([]persist.Record, 40)
	for n := range all {
		all[n] = record(n, make([]byte, 100_000)) // several frames
	}
	source := put(t, newLog(t, wal.Engine), all...)
	bad, good := newHost(t, source), newHost(t, source)
	bad.cut = func(c net.Conn) net.Conn { return &fragile{c, 2 << 20} }
	l := newLog(t, wal.Engine)
	first, err := bring(t, l, order.Version{}, nil, bad)
	if !errors.Is(err, errBroken) || first.Records == 0 || first.Records == 40 {
		t.Fatalf("%+v, %v", first, err)
	}
	r, err := bring(t, l, order.Version{}, nil, good)
	if err != nil || r.Records != 40-first.Records {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.Common == (order.Version{}) || !alike(everything(t, l), all) {
		t.Fatalf("%+v", r)
	}
}

func TestTheErrorSaysWhatIsWrongWithASource(t *testing.T) {
	t.Parallel()
	gone := newHost(t, newLog(t, bolt.Engine))
	gone.cut = func(c net.Conn) net.Conn { return &fragile{c, 0} }
	if _, err := bring(t, newLog(t, bolt.Engine), order.Version{}, nil, gone); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	other := newHost(t, newLog(t, bolt.Engine), func(c *ServerConfig) { c.Cluster = "another" })
	if _, err := bring(t, newLog(t, bolt.Engine), order.Version{}, nil, other); !errors.Is(err, ErrOtherCluster) {
		t.Error(err)
	}
}

func TestALogThatCatchesUpItselfGivesWhatLiesBeforeAVersionThatItHas(t *testing.T) {
	t.Parallel()
	all := history(40)
	has := fork(all, 30) // and an end that no other process kept
	h := newHost(t, put(t, newLog(t, bolt.Engine), has...), func(c *ServerConfig) { c.Partial = func(persist.LogID) bool { return true } })
	for _, c := range []struct {
		what   string
		own    []persist.Record
		before order.Version
		want   int // records; 0: it is no source
	}{
		{"what it has", all[:12], catchup.After(all[29].Version), 30},
		{"an end that both have, and no other process", has, catchup.After(all[29].Version), 30},
		{"its own end", all[:12], order.Version{}, 0},
		{"a version that it does not have", all[:12], catchup.After(order.Version{View: 3, Seq: 5}), 0},
		{"a version to come", all[:12], catchup.After(order.Version{View: 9, Seq: 5}), 0},
		{"the end of a view", all[:12], order.Version{View: 3}, 0},
	} {
		l := put(t, newLog(t, bolt.Engine), c.own...)
		_, err := bring(t, l, c.before, nil, h)
		switch {
		case c.want == 0 && (err == nil || !alike(everything(t, l), c.own)):
			t.Errorf("%s: %v, and it has %d records", c.what, err, len(everything(t, l)))
		case c.want > 0 && (err != nil || !alike(everything(t, l), all[:c.want])):
			t.Errorf("%s: %v, and it has %d records of %d", c.what, err, len(everything(t, l)), c.want)
		}
	}
}

func TestABusySourceSaysSo(t *testing.T) {
	t.Parallel()
	all := history(10)
	h := newHost(t, put(t, newLog(t, bolt.Engine), all...))
	for range maxReaders {
		h.server.readers <- struct{}{}
	}
	l := newLog(t, bolt.Engine)
	if _, err := bring(t, l, order.Version{}, nil, h); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	for range maxReaders {
		<-h.server.readers
	}
	if _, err := bring(t, l, order.Version{}, nil, h); err != nil || !alike(everything(t, l), all) {
		t.Fatal(err)
	}
}

func TestACatchUpEndsWithItsContext(t *testing.T) {
	t.Parallel()
	h := newHost(t, newLog(t, bolt.Engine))
	ctx, cancel := context.WithCancel(t.Context())
	dialled := 0
	_, err := CatchUp(ctx, CatchUpConfig{
		ID: prices, Log: newLog(t, bolt.Engine), Before: order.Version{View: 9}, Times: quick,
		Dial: func(ctx context.Context) (net.Conn, error) {
			dialled++
			context.AfterFunc(h.asked(), cancel)
			return h.dial(ctx)
		},
	})
	if !errors.Is(err, context.Canceled) || dialled != 1 {
		t.Fatal(dialled, err)
	}
}

// asked is a context that ends when the host has taken a place for a request.
func (h *host) asked() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	h.serving.Go(func() {
		for len(h.server.readers) == 0 {
			if wait.Sleep(h.t.Context(), quick.Pause) != nil {
				break
			}
		}
		cancel()
	})
	return ctx
}

func TestTheOwnLogsErrorEndsACatchUp(t *testing.T) {
	t.Parallel()
	s, err := persist.Open(t.Context(), persist.Config{Dir: testutil.MemoryDir(t), Cluster: "test", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Log(t.Context(), persist.LogConfig{ID: prices})
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, put(t, newLog(t, bolt.Engine), history(3)...))
	if _, err := bring(t, l, order.Version{}, nil, h); !errors.Is(err, persist.ErrClosed) || !errors.As(err, new(catchup.OwnError)) {
		t.Fatal(err)
	}
}

// Two logs with a common beginning and tails of their own, records of all sizes, snapshots here and
// there, connections that break anywhere: in the end, the one is the other.
func TestLW3RandomLogsBecomeEqualWhateverBreaks(t *testing.T) {
	t.Parallel()
	for seed := range testutil.Seeds[uint64](8, 30) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel() // most of it is waiting for the disk
			randomCatchUp(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func randomCatchUp(t *testing.T, random *rand.Rand) {
	engines := []persist.Engine{bolt.Engine, wal.Engine}
	common := randomRecords(random, 0, random.IntN(300), nil)
	mine := randomRecords(random, len(common), random.IntN(200), common)
	theirs := randomRecords(random, len(common), random.IntN(200), common)
	l := put(t, newLog(t, engines[random.IntN(2)]), mine...)
	source := put(t, newLog(t, engines[random.IntN(2)]), theirs...)
	if random.IntN(2) == 0 && len(theirs) > 0 {
		snapshot(t, source, theirs[random.IntN(len(theirs))].Version, strings.Repeat("x", random.IntN(1<<20)))
	}
	if random.IntN(3) == 0 && len(common) > 0 {
		snapshot(t, l, common[random.IntN(len(common))].Version, "own")
	}
	weak := newHost(t, source)
	weak.cut = breaks(random, 1<<uint(8+random.IntN(14)))
	strong := newHost(t, source)
	r, err := bring(t, l, order.Version{}, nil, weak, weak, weak, strong)
	if err != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	got := everything(t, l)
	kept := theirs[len(theirs)-min(len(theirs), len(got)):]
	if !alike(got, kept) || l.Info().Snapshot == (order.Version{}) && len(got) != len(theirs) && source.Info().Snapshot == (order.Version{}) {
		t.Fatalf("%d records, not the last of %d: %+v", len(got), len(theirs), r)
	}
	if l.End().Version != source.End().Version {
		t.Fatalf("it ends with %v, not %v", l.End().Version, source.End().Version)
	}
}

// randomRecords go on behind others.
func randomRecords(random *rand.Rand, from, count int, behind []persist.Record) []persist.Record {
	all := append([]persist.Record(nil), behind...)
	view, seq, at := order.ViewID(1), order.Seq(0), order.Time(1000)
	if from > 0 {
		last := all[from-1]
		view, seq, at = last.Version.View, last.Version.Seq+1, last.Time
	}
	for range count {
		if random.IntN(20) == 0 {
			view, seq = view+1+order.ViewID(random.IntN(2)), 0
		}
		seq += order.Seq(random.IntN(3))
		at += order.Time(1 + random.IntN(1_000_000))
		size := random.IntN(200)
		if random.IntN(30) == 0 {
			size = random.IntN(1 << 20)
		}
		data := make([]byte, size)
		for i := range min(size, 8) {
			data[i] = byte(random.Uint32())
		}
		all = append(all, persist.Record{Version: order.Version{View: view, Seq: seq}, Time: at, Sender: order.NodeID(random.IntN(4)), Data: data})
		seq++
	}
	return all
}
