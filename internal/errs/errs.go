// Package errs has errors that members and clients return, and collects faults of configurations.
// Clients are built without package squall, which exports the errors under the same names.
package errs

import "errors"

// Errors of package squall.
var (
	ErrTooLarge      = errors.New("message too large")
	ErrNotPersistent = errors.New("the subgroup is not persistent")
	ErrInCallback    = errors.New("the call would wait for the callback that makes it")
	ErrOtherGroup    = errors.New("the members are of another group of this name")
	ErrLeftShard     = errors.New("this process is not in the shard any more")
)
