//go:build mutants

package sim

import (
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/sst"
)

// Rows of Seeping pairs change between any two loads of a step.
func init() { sst.BeforeLoad = simnet.BeforeLoad }
