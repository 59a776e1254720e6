package persist

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// A log that is closed notes where it ends, among the engine's own values. An engine of segments
// takes a damaged entry near its end for one that a crash interrupted, and drops it with all that
// comes after; a log that was closed had no such entry. The note is taken away when the log is
// opened to be written to.
//
//	sum of what follows 4 │ block 8 │ records 8 │ view 8 │ seq 8
var endKey = []byte("squall.end")

// A log that is open notes from time to time up to where it is certain to go, likewise. It bounds
// what can be lost unsaid of a log that was not closed. A page of a tree of bolt has no checksum,
// and a number in it that leads to another good page of the tree gives a smaller tree, which is
// well formed. A segment whose end is cut off, or zeroed, looks like one that was not filled yet. A
// log that is cut takes the note away first.
var leastKey = []byte("squall.least")

// noteBlocks is the number of blocks after which the note is written anew: so many that its sync
// costs a thousandth of the syncs of the blocks.
const noteBlocks uint64 = 1024

const endBytes = 4 + 4*8

func encodeEnd(e journal.End) []byte {
	b := make([]byte, 4, endBytes)
	for _, v := range []uint64{e.Block, e.Records, uint64(e.Version.View), uint64(e.Version.Seq)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	binary.LittleEndian.PutUint32(b, crc.Of(b[4:]))
	return b
}

// notedEnd is where a log was closed, if it was.
func notedEnd(s journal.Store, place string) (e journal.End, noted bool, err error) {
	return readNote(s, place, endKey)
}

func readNote(s journal.Store, place string, key []byte) (e journal.End, noted bool, err error) {
	b, err := s.Get(key)
	if err != nil || len(b) == 0 {
		return e, false, err
	}
	if len(b) != endBytes || binary.LittleEndian.Uint32(b) != crc.Of(b[4:]) {
		return e, false, engine.Damaged(place, "the note of its end has a wrong checksum")
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[4+8*i:]) }
	e.Block, e.Records = word(0), word(1)
	e.Version = order.Version{View: order.ViewID(word(2)), Seq: order.Seq(word(3))}
	return e, true, nil
}

// lostEnd is the damage of a log that ends before the place where it was closed, or was not closed
// and has lost more than a crash takes. What a crash takes is torn.
func lostEnd(s journal.Store, kind engine.Driver, place string, block uint64) (torn journal.Repaired, err error) {
	what := "was closed with"
	e, noted, err := notedEnd(s, place)
	if err == nil && !noted {
		torn, err = kind.LostTail(place, block)
	}
	if err == nil && !noted {
		e, noted, err = leastEnd(s, place)
		what = "had"
	}
	if err != nil || !noted || block >= e.Block {
		return torn, err
	}
	return journal.Repaired{}, &journal.Damage{
		Log: place, Block: block + 1, Record: e.Records, Version: e.Version,
		What: fmt.Sprintf("it %s block %d and %d records, up to version %v, and ends with block %d", what, e.Block, e.Records, e.Version, block),
	}
}

// leastEnd is up to where a log was certain to go, if that was noted.
func leastEnd(s journal.Store, place string) (e journal.End, is bool, err error) {
	return readNote(s, place, leastKey)
}

// noteLeast notes up to where the log goes. Its caller holds the files.
func (l *Log) noteLeast(end journal.End) error {
	if end.Block == 0 {
		return l.forgetLeast()
	}
	if err := l.engine.Set(leastKey, encodeEnd(end)); err != nil {
		return err
	}
	l.least = end.Block
	return nil
}

// forgetLeast takes the note away, durably, before the log is cut. Its caller holds the files.
func (l *Log) forgetLeast() error {
	if _, noted, err := leastEnd(l.engine, l.dir); err == nil && !noted {
		return nil
	}
	l.least = 0
	return l.engine.Set(leastKey, []byte{})
}

// checkEnd refuses a log that lost its end, unless it is to be repaired.
func (l *Log) checkEnd() error {
	torn, err := lostEnd(l.engine, l.config.driver, l.dir, l.book.End().Block)
	if torn.Blocks > 0 && l.repaired.Blocks == 0 {
		l.repaired = torn
	}
	if errors.Is(err, ErrDamaged) && l.config.Repair {
		end := l.book.End()
		l.repaired.Record, l.repaired.Version = end.Records, end.Version
		if l.store.config.ReadOnly {
			return nil
		}
		return l.config.driver.ForgetTail(l.dir, end.Block)
	}
	return err
}

// forgetEnd takes the note away, durably: from now on the log may get longer, and be cut.
func (l *Log) forgetEnd() error {
	if _, noted, err := notedEnd(l.engine, l.dir); err == nil && !noted {
		return nil
	}
	return l.engine.Set(endKey, []byte{})
}

// noteEnd is done when nothing is written any more.
func (l *Log) noteEnd() error { return l.engine.Set(endKey, encodeEnd(l.state.Load().end)) }
