package order

import "fmt"

// Stage is how far a version of a persistent subgroup has come.
type Stage uint8

// Stages of a version. A version that is OnEveryDisk survives even if all members end at once.
const (
	OnThisDisk Stage = iota
	OnEveryDisk
)

// String returns "on this disk" or "on every disk".
func (s Stage) String() string {
	switch s {
	case OnThisDisk:
		return "on this disk"
	case OnEveryDisk:
		return "on every disk"
	}
	return fmt.Sprintf("stage %d", uint8(s))
}
