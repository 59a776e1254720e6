package viewchange

import (
	"math/bits"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// Counters of the view line.
const (
	wordSuspected sst.Counter[Ranks]  = 0
	wordLeaving   sst.Counter[uint64] = 1
	wordMute      sst.Counter[uint64] = 2
	wordProposed  sst.Counter[Ballot] = 3
	wordAcked     sst.Counter[Ballot] = 4
	wordInstalled sst.Counter[Ballot] = 5
	wordDecided   sst.Counter[Ballot] = 6
	wordRevision  sst.Counter[uint64] = 7
)

// viewWords are the names of these counters.
var viewWords = []string{"suspected", "leaving", "mute", "proposed", "acked", "installed", "decided", "revision"}

// Columns is where the view change lies in each row.
type Columns struct {
	line                          []int // by rank
	vectors, proposals, decisions []sst.Area
}

// Declare lays the view change out in every row.
func Declare(l *sst.Layout, v *views.View) (c Columns) {
	vector, record := vectorBytes(v), recordBytes(v)
	n := len(v.Members)
	c.line, c.vectors = l.Lines("view", viewWords...), make([]sst.Area, n)
	c.proposals, c.decisions = make([]sst.Area, n), make([]sst.Area, n)
	for r := range order.Rank(n) {
		c.vectors[r] = l.Bytes(r, vector)
		c.proposals[r] = l.Bytes(r, record)
		c.decisions[r] = l.Bytes(r, record)
	}
	return c
}

// Ballot numbers the attempts to decide on one view's end: attempt<<8 | rank of the leader. 0 is
// none.
type Ballot uint64

func newBallot(attempt uint64, leader order.Rank) Ballot { return Ballot(attempt<<8 | uint64(leader)) }

// Leader returns the rank of the member that leads the attempt.
func (b Ballot) Leader() order.Rank { return order.Rank(b & 0xff) }

// Attempt returns the number of the attempt, from 1.
func (b Ballot) Attempt() uint64 { return uint64(b >> 8) }

// Ranks is a set of ranks, a bit each: a view has at most 64 members.
type Ranks uint64

func ranksOf(list []order.Rank) (s Ranks) {
	for _, r := range list {
		s |= only(r)
	}
	return s
}

func only(r order.Rank) Ranks { return 1 << r }

func all(n int) Ranks { return 1<<n - 1 } // of 64 it is 0 − 1: all

// Has reports whether r is in the set.
func (s Ranks) Has(r order.Rank) bool { return s&only(r) != 0 }

// Count returns the number of ranks in the set.
func (s Ranks) Count() int { return bits.OnesCount64(uint64(s)) }

// lowest returns the lowest rank of a set that is not empty.
func (s Ranks) lowest() order.Rank { return order.Rank(bits.TrailingZeros64(uint64(s))) }

// List returns the ranks of the set in ascending order.
func (s Ranks) List() (ranks []order.Rank) {
	for ; s != 0; s &= s - 1 {
		ranks = append(ranks, s.lowest())
	}
	return ranks
}

// Quorum reports whether a set of members of a view of n may decide for it (G5): a strict majority,
// or exactly half with the senior member, rank 0. Any two of them share a member.
func Quorum(n int, set Ranks) bool {
	k := set.Count()
	return 2*k > n || 2*k == n && set.Has(0)
}

// With returns the set, with r added if so is true.
func (s Ranks) With(r order.Rank, so bool) Ranks {
	if so {
		return s | only(r)
	}
	return s
}
