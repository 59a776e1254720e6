package catchup

import (
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// memory is a log in memory, which is read as far as it is durable. What a snapshot stands for is
// not in records.
type memory struct {
	unsynced int // records at the end that are not durable
	records  []persist.Record
	snapshot persist.Record // version zero: there is none
}

// durable returns the records that are read.
func (l *memory) durable() []persist.Record { return l.records[:len(l.records)-l.unsynced] }

func (l *memory) Info() (i persist.Info) {
	durable := l.durable()
	i.Count, i.Snapshot = uint64(len(durable)), l.snapshot.Version
	if i.Count > 0 {
		i.First, i.Last = durable[0], durable[len(durable)-1]
		i.First.Data, i.Last.Data = nil, nil
	}
	return i
}

// seek returns the index of the first durable record that is not before a version.
func (l *memory) seek(v order.Version) int {
	i, _ := slices.BinarySearchFunc(l.durable(), v, func(r persist.Record, v order.Version) int { return r.Version.Compare(v) })
	return i
}

func (l *memory) Get(v order.Version) (persist.Record, error) {
	if i := l.seek(v); i < len(l.durable()) && l.records[i].Version == v {
		return l.records[i], nil
	}
	return persist.Record{}, persist.ErrNotFound
}

func (l *memory) At(t order.Time) (r persist.Record, err error) {
	err = persist.ErrNotFound
	for _, each := range l.durable() {
		if each.Time <= t {
			r, err = each, nil
		}
	}
	return r, err
}

func (l *memory) Range(from, to order.Version) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) {
		for _, r := range l.durable()[l.seek(from):] {
			if to != (order.Version{}) && !r.Version.Before(to) || !yield(r, nil) {
				return
			}
		}
	}
}

func (l *memory) SnapshotEnd() (persist.Record, error) {
	if l.snapshot.Version == (order.Version{}) {
		return persist.Record{}, persist.ErrNotFound
	}
	return l.snapshot, nil
}

func (l *memory) Sync() error {
	l.unsynced = 0
	return nil
}

func (l *memory) Cut(after order.Version) error {
	if after == (order.Version{}) {
		l.records = nil
		return nil
	}
	l.records = slices.Clip(l.records[:l.seek(After(after))])
	return nil
}

func (l *memory) Import(r persist.Record) error {
	if n := len(l.records); n > 0 && (!l.records[n-1].Version.Before(r.Version) || l.records[n-1].Time >= r.Time) {
		return errors.New("a record that does not follow the last one")
	}
	r.Number = uint64(len(l.records)) + l.snapshot.Number
	l.records = append(l.records, r)
	l.unsynced++
	return nil
}

func (l *memory) Install(at persist.Record, _ io.Reader) error {
	l.records, l.snapshot = nil, at
	return nil
}

// drop has a snapshot stand for the first records.
func (l *memory) drop(n int) {
	l.snapshot = l.records[n-1]
	l.snapshot.Data, l.snapshot.Number = nil, uint64(n)
	l.records = l.records[n:]
}

// remote is a log as a source. It breaks after some records; less than 0: it does not.
type remote struct {
	*memory
	breaks int
	asked  Bounds
}

var errBreaks = errors.New("the connection broke")

func (l *remote) Ready(before order.Version) (persist.Info, error) { return l.Info(), nil }

func (l *remote) Probe(v order.Version) (Mark, error) { return LastUpTo(l.memory, v) }

func (l *remote) Snapshot() (persist.Record, Snapshot, error) {
	return l.snapshot, whole{strings.NewReader("state")}, nil
}

func (l *remote) Records(b Bounds) iter.Seq2[persist.Record, error] {
	l.asked = b
	return func(yield func(persist.Record, error) bool) {
		for r, err := range l.Range(b.From, b.To) {
			if l.breaks == 0 {
				yield(r, errBreaks)
				return
			}
			l.breaks--
			if !yield(r, err) {
				return
			}
		}
	}
}

// whole is a snapshot that arrives.
type whole struct{ *strings.Reader }

func (whole) Finish() error   { return nil }
func (s whole) Total() uint64 { return uint64(s.Size()) }

// grow appends records to a log.
func grow(l *memory, n int, random *rand.Rand) {
	r := persist.Record{Version: order.Version{View: 1}}
	if len(l.records) > 0 {
		r = l.records[len(l.records)-1]
	}
	for range n {
		r.Version.Seq += order.Seq(1 + random.IntN(3))
		if random.IntN(8) == 0 {
			r.Version = order.Version{View: r.Version.View + 1}
		}
		r.Time += order.Time(1 + random.IntN(5))
		r.Sender, r.Number, r.Data = order.NodeID(1+random.IntN(3)), uint64(len(l.records)), []byte{byte(random.IntN(256))}
		l.records = append(l.records, r)
	}
}

func same(a, b []persist.Record) bool {
	return slices.EqualFunc(a, b, func(a, b persist.Record) bool {
		return a.Version == b.Version && a.Time == b.Time && a.Sender == b.Sender && slices.Equal(a.Data, b.Data)
	})
}

// histories are two logs with a common beginning.
func histories(random *rand.Rand) (mine, theirs *memory, common int) {
	var first memory
	grow(&first, random.IntN(20), random)
	mine, theirs, common = &memory{records: slices.Clone(first.records)}, &memory{records: slices.Clone(first.records)}, len(first.records)
	grow(mine, random.IntN(2)*random.IntN(8), random)
	grow(theirs, random.IntN(12), random)
	for common < len(mine.records) && common < len(theirs.records) && same(mine.records[common:common+1], theirs.records[common:common+1]) {
		common++
	}
	return mine, theirs, common
}

func TestALogBecomesThatOfItsSource(t *testing.T) {
	for seed := range uint64(20000) {
		random := rand.New(rand.NewPCG(seed, 1))
		mine, theirs, common := histories(random)
		task := Task{Log: mine}
		want := theirs.records
		if n := len(theirs.records); n > 0 && random.IntN(2) == 0 {
			task.Before = theirs.records[random.IntN(n)].Version
			if random.IntN(2) == 0 {
				task.Before = After(task.Before)
			}
			want = theirs.records[:theirs.seek(task.Before)]
		}
		common = min(common, len(want))
		had := len(mine.records)
		mine.unsynced = random.IntN(had + 1)
		for tries := 0; ; tries++ {
			source := &remote{memory: theirs, breaks: random.IntN(6) - 1}
			task.Source = source
			err := task.Run()
			if last, _ := mine.Get(task.Common); source.asked.From == After(task.Common) && source.asked.Since != last.Time+1 {
				t.Fatalf("seed %d: records after %v are asked for as of %v", seed, last, source.asked.Since)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errBreaks) || tries > 100 {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if !same(mine.records, want) {
			t.Fatalf("seed %d: the log has %v, its source %v", seed, mine.records, want)
		}
		if int(task.Cut) != had-common || int(task.Result.Records) != len(want)-common { // CU1
			t.Fatalf("seed %d: %d records cut and %d fetched, with %d of %d in common, and %d wanted", seed, task.Cut, task.Result.Records, common, had, len(want))
		}
	}
}

func TestCU1ALogThatIsKeptLosesNothing(t *testing.T) {
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 2))
		mine, theirs, common := histories(random)
		before := slices.Clone(mine.records)
		mine.unsynced = random.IntN(len(before) + 1)
		task := Task{Log: mine, Source: &remote{memory: theirs, breaks: random.IntN(8) - 1}, Keep: true}
		err := task.Run()
		if len(mine.records) < len(before) || !same(mine.records[:len(before)], before) || task.Cut > 0 {
			t.Fatalf("seed %d: %d records are left of %d", seed, len(mine.records), len(before))
		}
		if part := common < len(before); part != errors.Is(err, ErrOther) {
			t.Fatalf("seed %d: %d of %d records are the source's, and it ends with %v", seed, common, len(before), err)
		}
	}
}

func TestALogWhoseFrontIsGoneIsReplacedByASnapshot(t *testing.T) {
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 3))
		var theirs, mine memory
		grow(&theirs, 2+random.IntN(20), random)
		all := slices.Clone(theirs.records)
		mine.records = slices.Clone(all[:random.IntN(len(all))])
		dropped := 1 + random.IntN(len(all))
		theirs.drop(dropped)
		task := Task{Log: &mine, Source: &remote{memory: &theirs, breaks: -1}}
		if err := task.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		first := 0
		if mine.snapshot.Version != (order.Version{}) {
			first = dropped
		}
		if last := all[len(all)-1].Version; task.Last != last {
			t.Fatalf("seed %d: it says that the log ends with %v, not with %v", seed, task.Last, last)
		}
		if !same(mine.records, all[first:]) {
			t.Fatalf("seed %d: after %d records there are %v", seed, first, mine.records)
		}
	}
}

// A source that keeps only its last records has dropped the others without a snapshot. What is
// common is found from its first record on; if that is not common, the log begins anew with it.
func TestALogThatIsOlderThanItsSourceKeepsWhatIsCommon(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 8))
		mine, theirs, common := histories(random)
		if len(theirs.records) == 0 {
			continue
		}
		first, had := random.IntN(len(theirs.records)), len(mine.records)
		want := slices.Concat(mine.records[:common], theirs.records[common:])
		if theirs.records = theirs.records[first:]; first >= common {
			want, common = theirs.records, 0
		}
		task := Task{Log: mine, Source: &remote{memory: theirs, breaks: -1}}
		if err := task.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !same(mine.records, want) || int(task.Cut) != had-common {
			t.Fatalf("seed %d: %d of %d records were cut, %d are common; the log has %v, its source %v", seed, task.Cut, had, common, mine.records, theirs.records)
		}
	}
}

// A snapshot that is kept is not replaced by another history's.
func TestCU1ASnapshotThatIsKeptIsNotReplaced(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 9))
	var mine, theirs memory
	grow(&mine, 5, random)
	grow(&theirs, 9, random)
	mine.drop(5)
	theirs.drop(7)
	before := mine.snapshot.Version
	err := (&Task{Log: &mine, Source: &remote{memory: &theirs, breaks: -1}, Keep: true}).Run()
	if !errors.Is(err, ErrOther) || mine.snapshot.Version != before || len(mine.records) > 0 {
		t.Errorf("it ends with %v, a snapshot of %v and %d records", err, mine.snapshot.Version, len(mine.records))
	}
}

func TestASourceThatHasLessThanItAnnouncedIsFoundOut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 4))
	var theirs memory
	grow(&theirs, 10, random)
	short := &shrinking{remote{memory: &theirs, breaks: -1}}
	if err := (&Task{Log: &memory{}, Source: short}).Run(); !errors.Is(err, ErrShort) {
		t.Errorf("a source that lost its end is reported as %v", err)
	}
}

// shrinking is a source that loses its last record once it has announced it.
type shrinking struct{ remote }

func (l *shrinking) Records(b Bounds) iter.Seq2[persist.Record, error] {
	l.records = l.records[:len(l.records)-1]
	return l.remote.Records(b)
}

func TestCU3WhatATaskAppendedIsDurableWhenItsSourceBreaksOff(t *testing.T) {
	var mine, theirs memory
	grow(&theirs, 9, rand.New(rand.NewPCG(1, 7)))
	task := &Task{Log: &mine, Source: &remote{memory: &theirs, breaks: 5}}
	if err := task.Run(); err == nil || task.Records == 0 || mine.unsynced > 0 {
		t.Errorf("it ends with %v after %d records, of which %d are not durable", err, task.Records, mine.unsynced)
	}
}

func TestWhatTheOwnLogSaysEndsATask(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 5))
	var theirs memory
	grow(&theirs, 3, random)
	full := errors.New("the disk is full")
	err := (&Task{Log: &broken{&memory{}, full}, Source: &remote{memory: &theirs, breaks: -1}}).Run()
	var own OwnError
	if !errors.As(err, &own) || own.Err != full {
		t.Errorf("it ends with %v", err)
	}
}

// broken is a log that takes no record.
type broken struct {
	*memory
	err error
}

func (l *broken) Import(persist.Record) error { return l.err }

func TestCU2ALogThatMayLackSomethingGivesNoEnd(t *testing.T) {
	var l memory
	grow(&l, 10, rand.New(rand.NewPCG(1, 6)))
	last := l.records[9].Version
	for _, c := range []struct {
		what    string
		partial bool
		before  order.Version
		want    Readiness
	}{
		{"all that a complete log has", false, order.Version{}, Gives},
		{"up to its last record", false, After(last), Gives},
		{"up to one before", false, After(l.records[4].Version), Gives},
		{"more than it has yet", false, After(After(last)), Waits},
		{"all that a partial log has", true, order.Version{}, Refuses},
		{"up to a record of a partial log", true, After(l.records[4].Version), Gives},
		{"up to its last one", true, After(last), Gives},
		{"up to one that it does not have", true, After(After(last)), Refuses},
	} {
		if got := Ready(&l, c.partial, c.before); got != c.want {
			t.Errorf("a source that is asked for %s: %d, not %d", c.what, got, c.want)
		}
	}
	versions := make([]order.Version, len(l.records))
	for i, r := range l.records {
		versions[i] = r.Version
	}
	l.drop(4)
	for i, v := range versions {
		want := Gives
		if i < 3 {
			want = Refuses
		}
		if m, err := LastUpTo(&l, v); err != nil || m.Found && v.Before(m.Version) {
			t.Errorf("the last record up to %v is one of %v, %v", v, m.Version, err)
		}
		if got := Ready(&l, true, After(v)); got != want {
			t.Errorf("a partial log whose snapshot ends with record 3 is asked for all up to record %d: %d, not %d", i, got, want)
		}
	}
	v := &views.View{Members: []views.Member{{ID: 1}, {ID: 2}}, Subgroups: []views.Subgroup{{Name: "a", Shard: 1, Members: []order.Rank{0}}}}
	for _, c := range []struct {
		lacks bool
		view  *views.View
		self  order.NodeID
		id    persist.LogID
		want  bool
	}{
		{false, nil, 1, persist.LogID{Name: "a"}, false}, {true, nil, 1, persist.LogID{Name: "a"}, true},
		{false, v, 1, persist.LogID{Name: "a", Shard: 1}, false}, {true, v, 1, persist.LogID{Name: "a", Shard: 1}, true},
		{false, v, 1, persist.LogID{Name: "a"}, true}, {false, v, 2, persist.LogID{Name: "a", Shard: 1}, true},
		{false, v, 3, persist.LogID{Name: "a", Shard: 1}, true},
	} {
		if got := Partial(c.lacks, c.view, c.self, c.id); got != c.want {
			t.Errorf("log %v at node %d, which lacks something: %v: partial %v", c.id, c.self, c.lacks, got)
		}
	}
}

// Records that are missing within a log are found, and got, though both its ends are the source's.
func TestARecordThatIsMissingWithinALogIsFetched(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 10))
		var theirs memory
		grow(&theirs, 3+random.IntN(20), random)
		out := 1 + random.IntN(len(theirs.records)-2)
		mine := &memory{records: slices.Delete(slices.Clone(theirs.records), out, out+1)}
		for i := range mine.records {
			mine.records[i].Number = uint64(i)
		}
		task := Task{Log: mine, Source: &remote{memory: &theirs, breaks: -1}}
		if err := task.Run(); err != nil || !same(mine.records, theirs.records) {
			t.Fatalf("seed %d: without record %d: %v, the log has %v, its source %v", seed, out, err, mine.records, theirs.records)
		}
	}
}
