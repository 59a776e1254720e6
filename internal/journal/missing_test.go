package journal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
)

// lacking is a store in which one block is not there.
type lacking struct {
	Store
	index uint64
}

func (s lacking) GetLog(index uint64, l *Entry) error {
	if index == s.index {
		return ErrNoEntry
	}
	return s.Store.GetLog(index, l)
}

// A block that is not there is damage, the first one, too: it was not dropped. A reader that comes
// to it names the first record that cannot be read; a search that meets it names the block alone.
func TestABlockThatIsNotThereIsNamedWithItsRecord(t *testing.T) {
	m := newMemory()
	grow(t, m, nil, 0, 60)
	whole, searches := open(t, m), 0
	for index := whole.first; index <= whole.last; index++ {
		h, err := whole.Header(index)
		if err != nil {
			t.Fatal(err)
		}
		b := whole.Fork()
		b.store = lacking{m, index}
		next := uint64(0)
		for r, e := range b.Records(0) {
			if err = e; err == nil {
				next = r.Number + 1
			}
		}
		if next == 0 {
			searches++
		}
		var d *Damage
		if !errors.As(err, &d) || d.Block != index || next > 0 && (next != h.First || h.Part == 0 && d.Record != next) {
			t.Errorf("block %d, which begins with record %d, is not there; %d records were read: %v", index, h.First, next, err)
		}
	}
	if blocks := int(whole.last - whole.first + 1); searches > blocks/2 {
		t.Errorf("%d of %d blocks are met by the search", searches, blocks)
	}
}

// Fragments at the end of a log whose first one is of another record are damage: nothing is
// dropped.
func TestFragmentsOfTwoRecordsAreDamage(t *testing.T) {
	m := newMemory()
	grow(t, m, nil, 0, 10) // the last record is in fragments
	m.logs = m.logs[:len(m.logs)-1]
	last, err := decode(m.logs[len(m.logs)-1].Data)
	if err != nil || last.Kind != Fragment || last.Part == 0 {
		t.Fatalf("%+v, %v", last, err)
	}
	at := len(m.logs) - 1 - int(last.Part)
	p, err := decode(bytes.Clone(m.logs[at].Data))
	if err != nil {
		t.Fatal(err)
	}
	p.First--
	m.logs[at].Data = encodeHeader(append(make([]byte, bodyAt(false)), p.body...), &p.Header, p.nodes())
	blocks := len(m.logs)
	if _, _, err := OpenBook(m, "ticks"); !errors.Is(err, ErrDamaged) || len(m.logs) != blocks {
		t.Errorf("%d blocks are left of %d: %v", len(m.logs), blocks, err)
	}
}

// A scan finds a block that begins at the time at which the one before ended, or earlier.
func TestAScanFindsTimesThatDoNotGrow(t *testing.T) {
	for behind := range order.Time(3) {
		m := newMemory()
		grow(t, m, nil, 0, 7)
		end := open(t, m).End()
		r := Record{Version: order.Version{View: end.Version.View + 1}, Time: end.Time + 1 - behind, Data: []byte("x")}
		end.Time = 0
		j := New(Config{Block: 1024, After: end})
		if !j.AppendAt(r) || !flush(j, m) {
			t.Fatal("the record is not stored")
		}
		_, faults, _ := scanned(t, m, nil)
		if found := len(faults) == 1 && strings.Contains(faults[0], "its time"); found != (behind > 0) || !found && len(faults) > 0 {
			t.Errorf("a time that grows by %d: %v", 1-int(behind), faults)
		}
	}
}
