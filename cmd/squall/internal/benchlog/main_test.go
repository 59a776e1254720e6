package benchlog

import (
	"os"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// TestMain makes the test binary a member process when it is started again as one.
func TestMain(m *testing.M) {
	proc.Become("bench "+memberCommand, NewMemberCommand())
	os.Exit(m.Run())
}
