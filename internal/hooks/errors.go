package hooks

import "errors"

// Errors of package squall, under the same names. Packages for clients return them, too, and are
// built without package squall.
var (
	ErrTooLarge      = errors.New("message too large")
	ErrNotPersistent = errors.New("the subgroup is not persistent")
	ErrInUpcall      = errors.New("the call would wait for the callback that makes it")
	ErrLeftShard     = errors.New("this process is not in the shard any more")
)
