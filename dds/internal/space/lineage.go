package space

import (
	"slices"
	"sort"
)

// ViewStart is where the records of a view begin. Two spaces with one name and one first record may
// have gone apart: if all processes have ended, and their disks had not all records, other records
// take the positions of the lost ones. They are of a later view.
type ViewStart struct {
	View  uint64 `cbor:"1,keyasint"`
	After uint64 `cbor:"2,keyasint"` // records before
	At    int64  `cbor:"3,keyasint"` // the time of the order at its first record
}

// Bounds of what is known of views: here, and at a client.
const (
	maxViews   = 1 << 10
	MaxLineage = 1 << 6
)

// enter notes the view of the record that is about to be applied.
func (s *Space) enter(view uint64) {
	if n := len(s.views); n > 0 && s.views[n-1].View == view {
		return
	}
	s.views = append(s.views, ViewStart{view, s.position - 1, s.now})
	if drop := len(s.views) - maxViews; drop > 0 {
		s.views = slices.Clone(s.views[drop:])
	}
}

// Lineage returns the last views: a client tells by them, where it resumes, whether the records up
// to its position are those of the space. The result stays as it is.
func (s *Space) Lineage() []ViewStart {
	from := max(0, len(s.views)-MaxLineage)
	return s.views[from:len(s.views):len(s.views)]
}

// common returns up to which position the records that a client has received are the records of
// this space, by the lineage of the space that sent these records. It is not more than upTo, and 0
// if nothing is known to be in common.
func (s *Space) common(lineage []ViewStart, upTo uint64) uint64 {
	if len(lineage) == 0 || len(s.views) == 0 || lineage[len(lineage)-1].View < s.views[0].View { // too long ago to be known
		return min(upTo, s.position)
	}
	for i, v := range slices.Backward(lineage) {
		k := sort.Search(len(s.views), func(k int) bool { return s.views[k].View >= v.View })
		if k == len(s.views) || s.views[k] != v {
			continue
		}
		end := min(upTo, s.position)
		if i+1 < len(lineage) {
			end = min(end, lineage[i+1].After)
		}
		if k+1 < len(s.views) {
			end = min(end, s.views[k+1].After)
		}
		return end
	}
	return 0
}
