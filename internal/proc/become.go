package proc

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
)

// Become makes this process a child if it was started as one: if its argument is the name of the
// command child, it runs that and ends. It is the first that the TestMain of a package calls whose
// tests start children, because Start runs this executable again, and that is the test's.
func Become(child *cobra.Command) {
	if !slices.Equal(os.Args[1:], []string{child.Name()}) {
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
