package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"

	"github.com/squall-go/squall/persist/internal/engine"
)

// unwritten is a log without a writer.
func unwritten(memory int) *Log {
	l := &Log{work: make(chan struct{}, 1), done: make(chan struct{})}
	l.journal = journal.New(journal.Config{Memory: memory})
	return l
}

func engines(t *testing.T, test func(t *testing.T, e Engine)) {
	for _, e := range []Engine{EngineBolt, EngineWAL} {
		t.Run(e.String(), func(t *testing.T) { test(t, e) })
	}
}

// reopened is a log in a store that is closed with the test.
func reopened(t *testing.T, dir string, c LogConfig) (*Store, *Log) {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir, Cluster: "test", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c.ID = LogID{Name: "ticks"}
	l, err := s.Log(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

// sample is record n of a log in the tests below.
func sample(n int) Record {
	return Record{
		Version: order.Version{View: order.ViewID(1 + n/10), Seq: order.Seq(3 * (n % 10))}, Time: order.Time(1000 * (n + 1)),
		Sender: order.NodeID(1 + n%3), Number: uint64(n), Data: bytes.Repeat([]byte{byte(n)}, n*37%5000),
	}
}

func appendSamples(t *testing.T, l *Log, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		r := sample(n)
		if !l.Append(&r) {
			t.Fatalf("record %d: no room", n)
		}
	}
	if err := l.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// reads checks that a loop yields the samples [from, to) and nothing else.
func reads(t *testing.T, records func(func(Record, error) bool), from, to int) {
	t.Helper()
	for r, err := range records {
		if err != nil {
			t.Fatal(err)
		}
		equal(t, r, sample(from))
		from++
	}
	if from != to {
		t.Fatalf("ended before record %d, want %d", from, to)
	}
}

func equal(t *testing.T, r, want Record) {
	t.Helper()
	if r.Version != want.Version || r.Time != want.Time || r.Sender != want.Sender || r.Number != want.Number || !bytes.Equal(r.Data, want.Data) {
		t.Fatalf("read %v, want %v", r, want)
	}
}

func TestWhatIsDurableIsReadByVersionByTimeAndInRangesAlsoAfterwards(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e})
		appendSamples(t, l, 0, 100)
		if n, v := l.Durable(); n != 100 || v != sample(99).Version || l.Appended() != 100 {
			t.Fatalf("durable %d, %v", n, v)
		}
		all := func(l *Log) {
			for n := range 100 {
				want := sample(n)
				r, err := l.Get(want.Version)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, r, want)
				if r, err = l.At(want.Time + 999); err != nil {
					t.Fatal(err)
				}
				equal(t, r, want)
			}
			reads(t, l.Range(order.Version{}, order.Version{}), 0, 100)
			reads(t, l.Range(sample(20).Version, sample(41).Version), 20, 41)
			reads(t, l.Between(20_001, 41_001), 20, 41)
			if i := l.Info(); i.Count != 100 || i.First.Version != sample(0).Version || i.Last.Number != 99 || i.First.Time != 1000 || i.Engine != e.String() || i.Bytes == 0 {
				t.Fatalf("%+v", i)
			}
			if _, err := l.Get(order.Version{View: 1, Seq: 1}); !errors.Is(err, ErrNotFound) {
				t.Fatalf("a version that is not there: %v", err)
			}
			if _, err := l.At(999); !errors.Is(err, ErrNotFound) {
				t.Fatalf("a time before the first: %v", err)
			}
		}
		all(l)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Get(sample(1).Version); !errors.Is(err, ErrClosed) {
			t.Fatalf("a closed log: %v", err)
		}
		s, l = reopened(t, dir, LogConfig{})
		all(l)
		appendSamples(t, l, 100, 150)
		reads(t, l.Range(order.Version{}, order.Version{}), 0, 150)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), Config{Dir: dir, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if l, err = s.Log(t.Context(), LogConfig{ID: LogID{Name: "ticks"}}); err != nil {
			t.Fatal(err)
		}
		reads(t, l.Range(order.Version{}, order.Version{}), 0, 150)
		if r := sample(150); l.Append(&r) || !errors.Is(l.Import(t.Context(), r), ErrReadOnlyDisk) {
			t.Fatal("a log that is only read took a record")
		}
	})
}

func TestATailFollowsAcrossViewsAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Engine: e})
		appendSamples(t, l, 0, 10)
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan Record)
		ended := make(chan error, 1)
		go func() {
			for r, err := range l.Tail(ctx, sample(5).Version) {
				if err != nil {
					ended <- err
					return
				}
				got <- r
			}
			ended <- nil
		}()
		for n := 5; n < 60; n++ {
			if n >= 10 {
				appendSamples(t, l, n, n+1)
			}
			equal(t, <-got, sample(n))
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("it ended with %v", err)
		}
	})
}

// Nothing that a tail at the end of the log has yet to read is dropped then.
func TestATailGoesOnWhenAllThatItHasReadIsDropped(t *testing.T) {
	t.Parallel()
	_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Engine: EngineWAL})
	appendSamples(t, l, 0, 10)
	c, err := l.cursor(byVersion(sample(10).Version))
	if err != nil {
		t.Fatal(err)
	}
	l.SetGlobal(sample(9).Version)
	if err := errors.Join(l.Snapshot(sample(9).Version, writes("ten")), c.wait(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestATailEndsWithItsLog(t *testing.T) {
	t.Parallel()
	s, l := reopened(t, testutil.MemoryDir(t), LogConfig{Engine: EngineWAL})
	ended := make(chan error)
	go func() {
		for _, err := range l.Tail(context.Background(), order.Version{}) {
			ended <- err
			return
		}
	}()
	s.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Fatalf("it ended with %v", err)
	}
}

func TestWhatIsBehindACutIsGoneAndTheLogGoesOn(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e})
		appendSamples(t, l, 0, 100)
		for _, at := range []int{99, 70, 69, 31} {
			if err := l.Cut(sample(at).Version); err != nil {
				t.Fatal(err)
			}
			reads(t, l.Range(order.Version{}, order.Version{}), 0, at+1)
			if _, v := l.Durable(); v != sample(at).Version {
				t.Fatalf("durable to %v", v)
			}
			appendSamples(t, l, at+1, at+4)
		}
		s.Close()
		_, l = reopened(t, dir, LogConfig{})
		reads(t, l.Range(order.Version{}, order.Version{}), 0, 35)
		if err := l.Cut(order.Version{}); err != nil {
			t.Fatal(err)
		}
		appendSamples(t, l, 0, 3)
		reads(t, l.Range(order.Version{}, order.Version{}), 0, 3)
	})
}

func TestImportKeepsTimesAndRefusesWhatDoesNotComeAfter(t *testing.T) {
	t.Parallel()
	_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Engine: EngineWAL, MemoryBytes: 10_000})
	for n := range 50 { // more than there is memory for
		if err := l.Import(t.Context(), sample(n)); err != nil {
			t.Fatal(err)
		}
	}
	early := sample(50)
	early.Time = sample(49).Time
	for _, r := range []Record{sample(49), sample(3), early} {
		if err := l.Import(t.Context(), r); !errors.Is(err, ErrOrder) {
			t.Fatalf("%v: %v", r, err)
		}
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads(t, l.Range(order.Version{}, order.Version{}), 0, 50)
}

func TestTheWriterSaysThatThereIsRoomAgain(t *testing.T) {
	t.Parallel()
	wake := make(chan struct{}, 1)
	_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Engine: EngineWAL, MemoryBytes: 1000, Wake: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	for n := range 200 {
		r := sample(n)
		for !l.Append(&r) {
			select {
			case <-wake:
			case <-time.After(10 * time.Second):
				t.Fatal("nothing woke the loop")
			}
		}
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads(t, l.Range(order.Version{}, order.Version{}), 0, 200)
}

func TestAFailedDiskIsSaidOnceAndNothingMoreIsAcknowledged(t *testing.T) {
	t.Parallel()
	said := make(chan error, 10)
	_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Engine: EngineWAL, Failed: func(err error) { said <- err }})
	appendSamples(t, l, 0, 10)
	l.files.Lock()
	l.engine = failing{l.engine}
	l.files.Unlock()
	r := sample(10)
	l.Append(&r)
	if err := <-said; !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if err := l.Sync(t.Context()); !errors.Is(err, errBroken) {
		t.Fatalf("Sync: %v", err)
	}
	r = sample(11)
	if n, v := l.Durable(); n != 10 || v != sample(9).Version || l.Append(&r) {
		t.Fatalf("durable %d, %v", n, v)
	}
	reads(t, l.Range(order.Version{}, order.Version{}), 0, 10) // what was acknowledged can be read
	if len(said) > 0 {
		t.Fatal("said twice")
	}
}

var errBroken = errors.New("broken")

type failing struct{ engine.Log }

func (failing) StoreLogs([]*journal.Entry) error { return fmt.Errorf("writing: %w", errBroken) }
