package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/journal"
)

const diskSeeds = 400

func testDisk(seed uint64) *disk {
	return newDisk(dice{rand.New(rand.NewPCG(seed, 7))}, DiskPlan{Sync: time.Millisecond})
}

func try(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestASlowSpellHoldsUpThePathsThatItIsFor(t *testing.T) {
	d := testDisk(1)
	d.slow, d.slowUntil = "logs/a", time.Second
	if got := d.takes("logs/a.0/log", 0); got != time.Second {
		t.Errorf("it takes %v", got)
	}
	if got := d.takes("logs/b.0/log", 0); got > 2*time.Millisecond {
		t.Errorf("another one takes %v", got)
	}
}

// crashing runs a history against a disk whose power goes at its n-th sync point, and returns false
// if it has fewer.
func crashing(d *disk, n int, arrive parts, history func()) (cut bool) {
	d.fuse, d.arrive = d.syncs+n, arrive
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(powerCut); !ok {
				panic(r)
			}
			cut = true
		}
		d.powerOff()
		d.fuse = 0
	}()
	history()
	return false
}

func entry(index uint64) *journal.Entry {
	return &journal.Entry{Index: index, Data: []byte(fmt.Sprintf("entry %d %s", index, bytes.Repeat([]byte{'.'}, int(index*37%900))))}
}

func entriesFrom(from, to uint64) (all []*journal.Entry) {
	for i := from; i <= to; i++ {
		all = append(all, entry(i))
	}
	return all
}

// span is which entries a log has; each of them must be what was written.
func span(t *testing.T, e *engine) (first, last uint64) {
	t.Helper()
	first, err := e.FirstIndex()
	last, err2 := e.LastIndex()
	try(t, err, err2)
	for i := first; i <= last && last > 0; i++ {
		var l journal.Entry
		if err := e.GetLog(i, &l); err != nil || !bytes.Equal(l.Data, entry(i).Data) {
			t.Fatalf("entry %d: %q, %v", i, l.Data, err)
		}
	}
	return first, last
}

func reopen(t *testing.T, d *disk) *engine {
	t.Helper()
	e, err := openEngine(d, "logs/a.0")
	try(t, err)
	return e
}

// extent is which entries a log has.
type extent struct{ first, last uint64 }

// deeds are what is done to a log, one thing after the other, with what it has then.
var deeds = []struct {
	extent
	do func(*engine) error
}{
	{extent{1, 3}, func(e *engine) error { return e.StoreLogs(entriesFrom(1, 3)) }},
	{extent{1, 9}, func(e *engine) error { return e.StoreLogs(entriesFrom(4, 9)) }},
	{extent{1, 6}, func(e *engine) error { return e.DeleteRange(7, 9) }},
	{extent{4, 6}, func(e *engine) error { return e.DeleteRange(1, 3) }},
	{extent{4, 7}, func(e *engine) error { return e.StoreLogs(entriesFrom(7, 7)) }},
}

// eachCut runs a history against disks whose power goes at each of its sync points, before it, in
// its middle and after it, and then looks what is there. It returns how many of these were looked
// at.
func eachCut(history func(*disk), look func(d *disk, where string, cut bool)) (points int) {
	for _, arrive := range []parts{noParts, someParts, tornParts, allParts} {
		for seed := range uint64(30) {
			for n, cut := 1, true; cut; n++ {
				d := testDisk(seed)
				cut = crashing(d, n, arrive, func() { history(d) })
				look(d, fmt.Sprintf("seed %d, sync point %d, parts %d", seed, n, arrive), cut)
				points++
			}
		}
	}
	return points
}

// What was done is there, what was under way is there as a whole or not at all.
func TestALogSurvivesAPowerCutAtEverySyncPoint(t *testing.T) {
	torn, done := 0, 0
	points := eachCut(func(d *disk) {
		done = 0
		e := reopen(t, d)
		for _, step := range deeds {
			try(t, step.do(e))
			done++
		}
	}, func(d *disk, where string, cut bool) {
		e := reopen(t, d)
		first, last := span(t, e)
		torn += one(e.tidy())
		was, next := extent{}, extent{}
		if done > 0 {
			was = deeds[done-1].extent
		}
		if next = was; cut && done < len(deeds) {
			next = deeds[done].extent
		}
		if got := (extent{first, last}); got != was && got != next {
			t.Fatalf("%s: entries %d to %d, after %d steps of %v", where, first, last, done, deeds)
		}
	})
	if torn == 0 || points < 500 {
		t.Errorf("%d sync points, %d torn ends", points, torn)
	}
}

// A log that loses its process, not its power, is as it was written, and stays so.
func TestALogLosesNothingWithItsProcess(t *testing.T) {
	for seed := range uint64(20) {
		d := testDisk(seed)
		e := reopen(t, d)
		try(t, e.write(entriesFrom(1, 5)))
		e = reopen(t, d)
		if _, last := span(t, e); last != 5 {
			t.Fatalf("it ends with %d", last)
		}
		d.powerOff()
		if _, last := span(t, reopen(t, d)); last != 5 {
			t.Fatalf("opened, and after a power cut it ends with %d", last)
		}
	}
}

// A log takes nothing any more once it is not known what is on its disk.
func TestALogThatFailedTakesNothing(t *testing.T) {
	d := testDisk(1)
	e := reopen(t, d)
	d.full = true
	if err := e.StoreLogs(entriesFrom(1, 3)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	d.full = false
	if err := e.StoreLogs(entriesFrom(1, 3)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, last := span(t, reopen(t, d)); last > 0 {
		t.Errorf("it ends with %d", last)
	}
}

// What a process has to remember is changed at once or not at all, wherever the power goes.
func TestWhatIsRememberedIsChangedAsAWholeAtEverySyncPoint(t *testing.T) {
	puts := []map[string][]byte{{"view": []byte("1"), "trim": []byte("1")}, {"view": []byte("2"), "trim": []byte("2")}, {"view": []byte("3"), "trim": nil}}
	states := []string{"map[]", "map[trim:1 view:1]", "map[trim:2 view:2]", "map[view:3]"}
	done := 0
	eachCut(func(d *disk) {
		done = 0
		m := openMemo(d, &d.memo)
		for _, put := range puts {
			try(t, m.Put(put))
			done++
		}
	}, func(d *disk, where string, cut bool) {
		values := map[string]string{}
		for key, value := range d.memo.seen {
			values[key] = string(value)
		}
		got := fmt.Sprint(values)
		if k := slices.Index(states, got); k != done && (!cut || k != done+1) {
			t.Fatalf("%s: %s after %d puts", where, got, done)
		}
	})
}

func TestADiskKnowsWhatIsOnThePlatter(t *testing.T) {
	d := testDisk(1)
	d.lax = NoDirSync
	e := reopen(t, d)
	for _, step := range []struct {
		do   func() error
		kept int
	}{
		{func() error { return e.StoreLogs(entriesFrom(1, 2)) }, 0}, // its name is not there
		{func() error { d.lax = SoundDisk; e = reopen(t, d); return nil }, 2},
		{func() error { return e.write(entriesFrom(3, 4)) }, 2},
		{func() error { return e.sync() }, 4},
		{func() error { d.lax = NoSync; return e.DeleteRange(2, 4) }, 1},
		{func() error { d.replace(); e = reopen(t, d); return nil }, 0},
	} {
		try(t, step.do())
		if n := e.onPlatter(); n != step.kept {
			t.Errorf("%d entries are on the platter, not %d", n, step.kept)
		}
	}
}

// Each fault of what stands between a log and its disk loses something.
func TestADiskThatLiesIsFoundOut(t *testing.T) {
	for _, lax := range []DiskBug{NoSync, NoDirSync} {
		lost := 0
		for seed := range uint64(diskSeeds) {
			d := testDisk(seed)
			d.lax = lax
			e := reopen(t, d)
			try(t, e.StoreLogs(entriesFrom(1, 3)))
			d.powerOff()
			if _, last := span(t, reopen(t, d)); last < 3 {
				lost++
			}
		}
		if lost == 0 {
			t.Errorf("bug %d lost nothing in %d power cuts", lax, diskSeeds)
		}
	}
}

func TestALogKeepsNamedValues(t *testing.T) {
	d := testDisk(1)
	e := reopen(t, d)
	try(t, e.Set([]byte("first"), []byte("7")))
	d.powerOff()
	if got, err := reopen(t, d).Get([]byte("first")); string(got) != "7" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := e.Get([]byte("last")); got != nil || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
