package boltlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/internal/engine"
)

// Groups are stored, dropped from either end, and read, also after the log is opened again. The
// file never grows but by what is set aside, and a large group leaves little memory in use.
func TestALogHasWhatItsModelHas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, seed) })
	}
}

func play(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	dir, data := testutil.MemoryDir(t), make([]byte, 4<<20+1000)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	if err := engine.Create(Driver{}, dir); err != nil {
		t.Fatal(err)
	}
	var e *engine.Recovering
	open := func() (err error) {
		if e != nil {
			err = e.Close()
		}
		if err == nil {
			e, err = engine.Open(engine.Opening{Context: t.Context()}, Driver{}, dir)
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	var model [][]byte // its entries
	first := uint64(1) // index of the first one
	value := []byte(nil)
	for step := range 40 {
		var err error
		last := first + uint64(len(model)) - 1
		switch n := random.IntN(20); {
		case n == 0:
			err = open()
		case n == 1:
			value = data[:random.IntN(100)]
			err = e.Set([]byte("name"), value)
		case n < 5 && len(model) > 0:
			drop := uint64(1 + random.IntN(len(model)))
			if n == 2 {
				err = e.DeleteRange(last-drop+1, last)
				model = model[:len(model)-int(drop)]
			} else {
				err = e.DeleteRange(first, first+drop-1)
				first, model = first+drop, model[drop:]
			}
		default:
			var group []*journal.Entry
			for i := range uint64(1 + random.IntN(4)) {
				b := data[random.IntN(1000):][:random.IntN(1<<random.IntN(23))]
				group, model = append(group, &journal.Entry{Index: last + 1 + i, Data: b}), append(model, b)
			}
			err = e.StoreLogs(group)
		}
		if err == nil {
			err = compare(e, first, model, value)
		}
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
}

// A small group writes the long entries that share its leaf again. The file has what is set aside
// for them, and does not grow by itself.
func TestSpaceIsSetAsideForLongEntriesThatAreWrittenAgain(t *testing.T) {
	t.Parallel()
	dir, long := testutil.MemoryDir(t), make([]byte, 4<<20)
	if err := engine.Create(Driver{}, dir); err != nil {
		t.Fatal(err)
	}
	opened, err := Driver{}.Open(engine.Opening{Context: t.Context()}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	e := opened.(*boltEngine)
	for i, n := range []int{len(long) / 8, len(long) / 8, len(long), len(long), len(long), 1, 1, 1} {
		if err := e.StoreLogs([]*journal.Entry{{Index: uint64(1 + i), Data: long[:n]}}); err != nil {
			t.Fatal(err)
		}
		if info, err := e.File.Stat(); err != nil || info.Size() != e.size {
			t.Fatalf("entry %d: the file has %d bytes, and %d were set aside; %v", 1+i, info.Size(), e.size, err)
		}
	}
}

// compare compares a log with its model.
func compare(e *engine.Recovering, first uint64, model [][]byte, value []byte) error {
	b, end := e.Engine.(*boltEngine), first+uint64(len(model))
	low, err1 := e.FirstIndex()
	high, err2 := e.LastIndex()
	got, err3 := e.Get([]byte("name"))
	info, err4 := b.File.Stat()
	used, err5 := b.used()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	if len(model) == 0 && low+high != 0 || len(model) > 0 && (low != first || high != end-1) || !bytes.Equal(got, value) {
		return fmt.Errorf("entries %d to %d, and value %x; want %d entries from %d on, and %x", low, high, got, len(model), first, value)
	}
	if used > b.size || info.Size() != b.size || cap(b.buffer) > keptBytes {
		return fmt.Errorf("%d bytes are used of %d, and the file has %d; the buffer has %d", used, b.size, info.Size(), cap(b.buffer))
	}
	for i, want := range model {
		var l journal.Entry
		if err := e.GetLog(first+uint64(i), &l); err != nil || !bytes.Equal(l.Data, want) {
			return fmt.Errorf("entry %d has %d bytes, %w; want %d", first+uint64(i), len(l.Data), err, len(want))
		}
	}
	for _, index := range []uint64{first - 1, end} {
		if err := e.GetLog(index, new(journal.Entry)); !errors.Is(err, journal.ErrNoEntry) {
			return fmt.Errorf("entry %d, which is not there: %w", index, err)
		}
	}
	return nil
}

// What is acknowledged is on the disk because the engine syncs each transaction, and each growth of
// its file.
func TestNoLogIsOpenedWithoutSyncs(t *testing.T) {
	t.Parallel()
	if o := (&boltEngine{}).options(engine.Opening{}); o.NoSync || o.NoGrowSync {
		t.Errorf("%+v", o)
	}
}
