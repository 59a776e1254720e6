package persist

import (
	"testing"
	"time"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
)

// kept is the number of the first record that is kept by the time the writer has looked twice.
func kept(t *testing.T, l *Log, from int) uint64 {
	t.Helper()
	appendSamples(t, l, from, from+10)
	appendSamples(t, l, from+10, from+20)
	return l.Info().First.Number
}

func TestRetentionKeepsWhatWasAskedForAndLittleMore(t *testing.T) {
	t.Parallel()
	for _, r := range []Retention{{Records: 35}, {Age: time.Hour, Records: 1 << 40}, {Bytes: 100_000}} {
		engines(t, func(t *testing.T, e Engine) {
			dir := testutil.MemoryDir(t)
			s, l := reopened(t, dir, LogConfig{Engine: e, Retain: r})
			appendSamples(t, l, 0, 100)
			l.SetGlobal(sample(1000).Version)
			kept(t, l, 100)
			mustClose(t, s) // the writer has dropped what it will
			_, l = reopened(t, dir, LogConfig{})
			i := l.Info()
			first := i.First.Number
			switch {
			case first == 0 || i.Last.Number != 119:
				t.Errorf("%+v: records %d to %d are here", r, first, i.Last.Number)
			case r.Records == 35 && (i.Count < 35 || i.Count > 35+20):
				t.Errorf("%d records are here", i.Count)
			case r.Bytes > 0 && (i.Bytes < r.Bytes || i.Bytes > r.Bytes+100_000):
				t.Errorf("%d bytes are here", i.Bytes)
			}
			reads(t, l.Range(order.Version{}, order.Version{}), int(first), 120)
		})
	}
}

// keepsWhatIsNotShared checks U3: records that another member may lack are kept.
func keepsWhatIsNotShared(t *testing.T) bool {
	_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Retain: Retention{Records: 1, Bytes: 1, Age: 1}})
	appendSamples(t, l, 0, 100)
	if kept(t, l, 100) != 0 {
		return false
	}
	l.SetGlobal(sample(57).Version)
	first := kept(t, l, 120)
	return first > 0 && first <= 58
}

// What every disk has only grows, in whatever order it becomes known.
func TestWhatEveryDiskHasOnlyGrows(t *testing.T) {
	t.Parallel()
	_, l := reopened(t, testutil.MemoryDir(t), LogConfig{})
	var most order.Version
	for _, n := range []int{3, 1, 7, 7, 0, 6, 12} {
		v := sample(n).Version
		if most.Before(v) {
			most = v
		}
		if l.SetGlobal(v); l.Info().Global != most {
			t.Errorf("%v and then %v: every disk has %v", most, v, l.Info().Global)
		}
	}
}

func TestRetentionNeverDropsWhatIsNotOnEveryDisk(t *testing.T) {
	t.Parallel()
	if !keepsWhatIsNotShared(t) {
		t.Error("it was dropped")
	}
}

// An idle log grows old, too.
func TestAgeIsLookedAtWhileNothingIsAppended(t *testing.T) {
	t.Parallel()
	_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Retain: Retention{Age: time.Millisecond}})
	appendSamples(t, l, 0, 30)
	l.SetGlobal(sample(29).Version)
	timeout := time.After(20 * time.Second)
	for l.Info().First.Number < 20 { // the last view has a block of its own at least
		l.mu.Lock()
		changed := l.change()
		l.mu.Unlock()
		if l.Info().First.Number >= 20 {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("from record %d on everything is here", l.Info().First.Number)
		}
	}
}

func TestWhatIsWithinALimitIsNotLookedAt(t *testing.T) {
	t.Parallel()
	r := Retention{Records: 32, Bytes: 3200}
	if r.full(32, 3200) || r.full(34, 3400) || !r.full(35, 0) || !r.full(0, 3401) {
		t.Error("the slack is not a sixteenth")
	}
	if _, err := (Retention{Records: 1}).keepFrom(new(journal.Book), 0, order.Version{}); err != nil {
		t.Error(err)
	}
}
