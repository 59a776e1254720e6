package rdmc

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
)

// TestMain makes the test binary a member process when it is started again as one.
func TestMain(m *testing.M) {
	proc.Become(bench.MemberProgram(Workload))
	goleak.VerifyTestMain(m)
}
