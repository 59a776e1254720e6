//go:build linux && !(verbs && cgo)

package ibverbs

import "github.com/squall-go/squall/fabric/verbs"

// Open opens a device by its name, or the first one with an active port if the name is empty.
func Open(name string) (*verbs.Transport, error) { return nil, ErrNotBuilt }
