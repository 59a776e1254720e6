package viewchange

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// A record is a value that does not fit a word: a proposal, a decision, or the vectors of a wedged
// member, as JSON in a byte area of its owner's row.
//
//	┌── ballot, u64 ──┐┌─ length, u32 ─┐┌─ crc32c, u32 ─┐┌──────── JSON ────────┐
//
// A word of the view line, its guard, says that the record of a ballot is there. An owner that
// writes the next record into the same area may be read, or its bytes may be under way, while it
// does: then header and guard differ or the checksum fails, and the reader waits for the next
// guard, which is on its way.
const recordHeaderBytes = 16

// proposal is what a leader wants the next view to be.
type proposal struct {
	View    *views.View  `json:"view,omitempty"` // nil: all members leave, and the group ends
	Removed []order.Rank `json:"removed,omitempty"`
	Left    []order.Rank `json:"left,omitempty"`
}

// Decision says how a view ends: the members that are not in the next one, what is still delivered
// in this one, and the next one.
type Decision struct {
	Ballot  Ballot          `json:"ballot"`
	View    *views.View     `json:"view,omitempty"`    // the next view; nil: the group ends
	Removed []order.Rank    `json:"removed,omitempty"` // ranks of this view that failed
	Left    []order.Rank    `json:"left,omitempty"`    // ranks of this view that left
	Trim    [][]order.Index `json:"trim"`              // by subgroup of this view and sender rank; nil where no member goes on
}

// key tells decisions about different views apart.
func (d *Decision) key() string {
	if d.View == nil {
		return "the group ends"
	}
	return d.View.Key()
}

// vectors are what a wedged member has: by subgroup of the view and sender rank, nil where it is
// not in it.
type vectors struct {
	Here [][]order.Index `json:"here"`
}

// putRecord writes a record into an area and returns how many bytes it takes, or false if it does
// not fit.
func putRecord(area []byte, b Ballot, v any) (int, bool) {
	text := encode(v)
	if recordHeaderBytes+len(text) > len(area) {
		return 0, false
	}
	return putText(area, b, text), true
}

// encode returns the text of a record.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("viewchange: a record that is no JSON: %w", err)) // plain structs of numbers and strings
	}
	return text
}

// putText writes a record's text, which fits.
func putText(area []byte, b Ballot, text []byte) int {
	binary.LittleEndian.PutUint64(area, uint64(b))
	binary.LittleEndian.PutUint32(area[8:], uint32(len(text)))
	binary.LittleEndian.PutUint32(area[12:], crc.Of(text))
	return recordHeaderBytes + copy(area[recordHeaderBytes:], text)
}

// recordText returns a copy of the JSON of a ballot's record, or false if it is not there as a
// whole.
func recordText(area []byte, b Ballot) ([]byte, bool) {
	if Ballot(binary.LittleEndian.Uint64(area)) != b {
		return nil, false
	}
	n := binary.LittleEndian.Uint32(area[8:])
	if uint64(n) > uint64(len(area)-recordHeaderBytes) {
		return nil, false
	}
	text := append([]byte(nil), area[recordHeaderBytes:recordHeaderBytes+int(n)]...)
	return text, crc.Of(text) == binary.LittleEndian.Uint32(area[12:])
}

// Sizes of records. Joiners beyond what fits wait for the next change.
const (
	maxJoins         = 8       // joiners of one change
	joinerBytes      = 1 << 10 // of a joiner's record, and more: its strings are bounded by the member that admits it
	indexBytes       = 21      // of an index in JSON
	rankBytes        = 4       // of a rank in JSON
	keeperBytes      = 80      // of a holder in JSON
	recordExtraBytes = 512     // names of fields, the ranks that go, and a link of the lineage
)

// recordBytes is the room for a proposal or decision about the view after v: the same at every
// member.
func recordBytes(v *views.View) (n int) {
	n = recordHeaderBytes + recordExtraBytes + len(encode(fieldsOf(v))) + maxJoins*joinerBytes
	n += 2 * rankBytes * len(v.Members) // removed and left
	for _, sg := range v.Subgroups {
		n += 2 * rankBytes * (len(v.Members) + maxJoins) // all members may come to be in it
		n += keeperBytes * len(sg.Members)               // or too few of them are left
	}
	return n + vectorBytes(v)
}

// vectorBytes is the room for the vectors of a view.
func vectorBytes(v *views.View) (n int) {
	n = recordHeaderBytes + recordExtraBytes
	for _, sg := range v.Subgroups {
		n += 8 + indexBytes*len(sg.Senders)
	}
	return n
}
