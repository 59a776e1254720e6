package sim

import (
	"fmt"
	"slices"
	"strings"
)

// FaultKinds is a set of kinds of faults, a bit each.
type FaultKinds uint32

// With returns the set with one kind more.
func (s FaultKinds) With(k FaultKind) FaultKinds { return s | 1<<k }

// Has reports whether a kind is in the set. Every kind is in the empty one: it stands for no choice
// at all.
func (s FaultKinds) Has(k FaultKind) bool { return s == 0 || s>>k&1 != 0 }

// String is the names in the set as an argument of a command.
func (s FaultKinds) String() string {
	var names []string
	for k := Crash; s != 0 && k < faultKinds; k++ {
		if s.Has(k) {
			names = append(names, k.flag())
		}
	}
	return strings.Join(names, ",")
}

// of keeps those of a list that are in the set. A kind may be in the list several times: it is
// drawn accordingly more often.
func (s FaultKinds) of(list ...FaultKind) []FaultKind {
	return slices.DeleteFunc(list, func(k FaultKind) bool { return !s.Has(k) })
}

func (k FaultKind) flag() string { return strings.ReplaceAll(k.String(), " ", "-") }

// FaultNames are the names that FaultNamed knows.
func FaultNames() (names []string) {
	for k := Crash; k < faultKinds; k++ {
		names = append(names, k.flag())
	}
	return names
}

// FaultNamed returns the kind that has a name.
func FaultNamed(name string) (FaultKind, error) {
	for k := Crash; k < faultKinds; k++ {
		if name == k.flag() {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%q is no kind of fault: use %s", name, strings.Join(FaultNames(), ", "))
}
