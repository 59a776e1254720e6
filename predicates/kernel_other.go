//go:build !linux

package predicates

// kernel knows nothing of threads here.
type kernel struct{}

func (*kernel) usage() usage { return usage{} }
func (*kernel) close()       {}
