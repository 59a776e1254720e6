package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
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

func content(t *testing.T, d *disk, path string) []byte {
	t.Helper()
	data, err := d.read(path)
	try(t, err)
	return data
}

// A file that lost power holds what was synced, whole, and of the rest some prefix, the last sector of which may be anything.
func TestWhatWasSyncedSurvivesAPowerCutAndOfTheRestAPrefixDoes(t *testing.T) {
	none, part, garbage, all := 0, 0, 0, 0
	for seed := range uint64(diskSeeds) {
		d := testDisk(seed)
		try(t, d.create("f"), d.syncDir(""))
		safe := bytes.Repeat([]byte{1}, 100)
		try(t, d.extend("f", safe), d.sync("f"))
		var want []byte
		for k := range byte(3) {
			more := bytes.Repeat([]byte{2 + k}, 1000)
			want = append(want, more...)
			try(t, d.extend("f", more))
		}
		d.powerOff()
		got := content(t, d, "f")
		if !bytes.HasPrefix(got, safe) {
			t.Fatalf("seed %d: %d bytes, and what was synced is not all there", seed, len(got))
		}
		rest := got[len(safe):]
		same := 0
		for same < len(rest) && rest[same] == want[same] {
			same++
		}
		if len(rest) > len(want) || len(rest)-same > sector {
			t.Fatalf("seed %d: %d bytes of %d, of which %d are right", seed, len(rest), len(want), same)
		}
		none, all = none+one(len(rest) == 0), all+one(same == len(want))
		part, garbage = part+one(same < len(want) && same%1000 > 0), garbage+one(same < len(rest))
	}
	if none == 0 || part == 0 || garbage == 0 || all == 0 {
		t.Errorf("of %d: nothing %d times, a part %d times, garbage %d times, all %d times", diskSeeds, none, part, garbage, all)
	}
}

func TestANameSurvivesAPowerCutOnlyIfItsDirectoryWasSynced(t *testing.T) {
	lost, kept := 0, 0
	for seed := range uint64(diskSeeds) {
		d := testDisk(seed)
		try(t, d.create("old"), d.syncDir(""), d.create("new"), d.extend("new", []byte("x")), d.sync("new"))
		d.powerOff()
		content(t, d, "old")
		if _, err := d.read("new"); errors.Is(err, fs.ErrNotExist) {
			lost++
		} else {
			kept++
		}
	}
	if lost == 0 || kept == 0 {
		t.Errorf("a name that was not synced was lost %d times, kept %d times", lost, kept)
	}
}

func TestARenameIsDoneOrNotAndNeverHalf(t *testing.T) {
	before, after := 0, 0
	for seed := range uint64(diskSeeds) {
		d := testDisk(seed)
		try(t, d.create("a"), d.extend("a", []byte("old")), d.sync("a"), d.syncDir(""))
		try(t, d.create("b"), d.extend("b", []byte("new")), d.sync("b"), d.rename("b", "a"))
		d.powerOff()
		switch got := string(content(t, d, "a")); got {
		case "old":
			before++
		case "new":
			after++
		default:
			t.Fatalf("seed %d: %q", seed, got)
		}
	}
	if before == 0 || after == 0 {
		t.Errorf("the old file was there %d times, the new one %d times", before, after)
	}
}

func TestAFullDiskTakesAPartAndSaysSo(t *testing.T) {
	d := testDisk(1)
	d.plan.Bytes = 10
	try(t, d.create("f"), d.extend("f", make([]byte, 8)))
	if err := d.extend("f", make([]byte, 8)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if n := len(content(t, d, "f")); n != 10 {
		t.Errorf("%d bytes", n)
	}
	try(t, d.remove("f"), d.create("g"), d.extend("g", make([]byte, 8)))
}

// What a sync could not take is seen for a while, and gone later, even if another sync succeeds in between.
func TestAFailedSyncIsNotMadeGoodByTheNextOne(t *testing.T) {
	d := testDisk(1)
	try(t, d.create("f"), d.syncDir(""), d.extend("f", []byte("x")))
	d.failing = true
	if err := d.sync("f"); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	d.failing = false
	try(t, d.sync("f"))
	if got := content(t, d, "f"); string(got) != "x" {
		t.Errorf("%q is seen", got)
	}
	d.powerOff()
	if got := content(t, d, "f"); len(got) != 0 {
		t.Errorf("%q is there", got)
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

// crashing runs a history against a disk whose power goes at its n-th sync point, and returns false if it has fewer.
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

func entries(from, to uint64) (all []*journal.Entry) {
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
	{extent{1, 3}, func(e *engine) error { return e.StoreLogs(entries(1, 3)) }},
	{extent{1, 9}, func(e *engine) error { return e.StoreLogs(entries(4, 9)) }},
	{extent{1, 6}, func(e *engine) error { return e.DeleteRange(7, 9) }},
	{extent{4, 6}, func(e *engine) error { return e.DeleteRange(1, 3) }},
	{extent{4, 7}, func(e *engine) error { return e.StoreLogs(entries(7, 7)) }},
}

// eachCut runs a history against disks whose power goes at each of its sync points, before it, in its middle and after it, and then looks
// what is there. It returns how many of these were looked at.
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
		torn += one(e.torn > 0)
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
		try(t, e.write(entries(1, 5)))
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

func TestWhatRottedInTheMiddleOfALogIsGivenAsItIs(t *testing.T) {
	d := testDisk(1)
	e := reopen(t, d)
	try(t, e.StoreLogs(entries(1, 3)), d.rot(e.file(), e.ends[0]+entryHeader+2))
	e = reopen(t, d)
	var l journal.Entry
	try(t, e.GetLog(2, &l))
	if bytes.Equal(l.Data, entry(2).Data) || e.torn > 0 {
		t.Errorf("%q, %d bytes torn", l.Data, e.torn)
	}
	try(t, e.GetLog(3, &l))
}

// A log takes nothing any more once it is not known what is on its disk.
func TestALogThatFailedTakesNothing(t *testing.T) {
	d := testDisk(1)
	e := reopen(t, d)
	d.full = true
	if err := e.StoreLogs(entries(1, 3)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	d.full = false
	if err := e.StoreLogs(entries(1, 3)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, last := span(t, reopen(t, d)); last > 0 {
		t.Errorf("it ends with %d", last)
	}
}

func memoOf(t *testing.T, d *disk) map[string]string {
	t.Helper()
	m, err := openMemo(d, "")
	try(t, err)
	got := map[string]string{}
	for key := range m.values {
		value, err := m.Get(key)
		try(t, err)
		got[key] = string(value)
	}
	return got
}

// What a process has to remember is changed at once or not at all, wherever the power goes.
func TestWhatIsRememberedIsChangedAsAWholeAtEverySyncPoint(t *testing.T) {
	puts := []map[string][]byte{{"view": []byte("1"), "trim": []byte("1")}, {"view": []byte("2"), "trim": []byte("2")}, {"view": []byte("3"), "trim": nil}}
	states := []string{"map[]", "map[trim:1 view:1]", "map[trim:2 view:2]", "map[view:3]"}
	done := 0
	eachCut(func(d *disk) {
		done = 0
		m, err := openMemo(d, "")
		try(t, err)
		for _, put := range puts {
			try(t, m.Put(put))
			done++
		}
	}, func(d *disk, where string, cut bool) {
		got := fmt.Sprint(memoOf(t, d))
		if k := slices.Index(states, got); k != done && (!cut || k != done+1) {
			t.Fatalf("%s: %s after %d puts", where, got, done)
		}
	})
}

func TestADiskKnowsWhatIsOnThePlatter(t *testing.T) {
	d := testDisk(1)
	for _, step := range []struct {
		do   func() error
		kept int
	}{
		{func() error { return d.mkdir("d") }, 0},
		{func() error { return d.create("d/f") }, 0},
		{func() error { return d.extend("d/f", []byte("xyz")) }, 0},
		{func() error { return d.sync("d/f") }, 0},
		{func() error { return d.syncDir("d") }, 0},
		{func() error { return d.syncDir("") }, 3},
		{func() error { return d.extend("d/f", []byte("x")) }, 3},
		{func() error { return d.sync("d/f") }, 4},
		{func() error { return d.truncate("d/f", 1) }, 1},
		{func() error { d.replace(); return nil }, 0},
	} {
		try(t, step.do())
		if n := d.kept("d/f"); n != step.kept {
			t.Errorf("%d bytes are on the platter, not %d", n, step.kept)
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
			try(t, e.StoreLogs(entries(1, 3)))
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
