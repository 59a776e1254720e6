package benchlarge

import (
	"fmt"
	"os"
	"testing"
)

// TestMain makes the test binary a member process when it is started again as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[2] == memberCommand {
		cmd := NewMemberCommand()
		cmd.SetArgs([]string{})
		cmd.SilenceErrors = true
		if err := cmd.Execute(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
