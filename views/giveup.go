package views

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// A shard can wait for disks that are gone permanently. An operator gives up the records that only
// those disks had: the operator marks the directory of one member, and that member has a mark in
// its record (Member.GaveUp) for each disk that the shard waits for. When all of the disks are
// given up, the shard goes on with the log of that member as it is. A mark names the shard and the
// disk, so that it gives up no other disk and no later log.
const (
	markDigits = 16
	// maxMarks bounds the number of marks of a member.
	maxMarks = MaxTextBytes / markDigits
)

// Mark returns the mark by which a member gives up a holder's log of the subgroup.
func (s Subgroup) Mark(k Holder) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "squall gave up %d %d %d %s", k.ID, k.Disk, s.Shard, s.Name))
	return hex.EncodeToString(sum[:])[:markDigits]
}

// gives reports whether a member gives up what a holder of a subgroup had.
func (m Member) gives(s Subgroup, k Holder) bool {
	if m.GaveUp == "" {
		return false
	}
	mark := s.Mark(k)
	for at := 0; at+markDigits <= len(m.GaveUp); at += markDigits {
		if m.GaveUp[at:at+markDigits] == mark {
			return true
		}
	}
	return false
}

// StandsIn reports whether a member gives up some holder of a subgroup, and has its own log, as it
// is, taken for the whole one.
func (m Member) StandsIn(s Subgroup, holders []Holder) bool {
	return m.GaveUp != "" && slices.ContainsFunc(holders, func(k Holder) bool { return m.gives(s, k) })
}

// GivenUp reports whether each holder of a subgroup is given up by some member.
func (s Subgroup) GivenUp(holders []Holder, members []Member) bool {
	return len(holders) > 0 && !slices.ContainsFunc(holders, func(k Holder) bool {
		return !slices.ContainsFunc(members, func(m Member) bool { return m.gives(s, k) })
	})
}

// AddMarks adds marks to the marks of a member. If there are too many, the oldest are dropped.
func AddMarks(marks string, more ...string) string {
	for _, mark := range more {
		if !strings.Contains(marks, mark) {
			marks += mark
		}
	}
	return marks[max(0, len(marks)-maxMarks*markDigits):]
}
