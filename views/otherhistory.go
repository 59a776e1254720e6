package views

import (
	"errors"
	"fmt"
)

// ErrOtherHistory says that a process that was a member of one group, as its directory tells, met
// another group of the same name. Neither changes anything of the other.
var ErrOtherHistory = errors.New("another group of the same name")

// OtherHistory is ErrOtherHistory with the identities of both groups, where the other one was met,
// and what to do.
func OtherHistory(where, own, other string) error {
	return fmt.Errorf("%s: %w: it is group %.64q, and the history that this process keeps is that of group %.64q, which stays as it is: give one of the groups another "+
		"cluster name, name the addresses of the own group, or start with an empty directory to take part in the other group", where, ErrOtherHistory, other, own)
}
