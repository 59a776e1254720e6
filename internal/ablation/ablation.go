// Package ablation switches parts of the protocol off, to measure what they are worth. It is for
// the benchmark alone: a group that runs so is slower, or stands still where a group that is not
// does not.
package ablation

import "github.com/squall-go/squall/internal/multicast"

// Set puts a tuning into a *squall.Config. The root package provides it.
var Set func(config any, t multicast.Tuning)
