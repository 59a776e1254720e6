package proc

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Become makes this process a child if it was started as one: if its arguments are the words of
// command, it runs child and ends. It is the first that the TestMain of a package calls whose tests
// start children, because Start runs this executable again, and that is the test's.
func Become(command string, child *cobra.Command) {
	if !slices.Equal(os.Args[1:], strings.Fields(command)) {
		return
	}
	child.SetArgs([]string{})
	child.SilenceErrors = true
	if err := child.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
