package logs

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/persist"
)

// meanings are what the arguments of commands stand for.
var meanings = map[string]string{
	"TARGET": "the directory of a member that does not run, or the HOST:PORT of one that runs",
	"DIR":    "the directory of a member that does not run",
}

// arguments checks how many there are: the first has to be there, and there are no more than names.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s is missing: %s\nsee %s --help", names[0], meanings[names[0]], cmd.CommandPath())
		case len(args) > len(names):
			return fmt.Errorf("%q is one argument too many\nsee %s --help", args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

// directories checks that there is one at least.
func directories(cmd *cobra.Command, args []string) error {
	return arguments("DIR")(cmd, args[:min(len(args), 1)])
}

// still refuses a member that runs where its directory has to be named.
func still(dir, why string) error {
	if _, err := os.Stat(dir); err != nil && isAddress(dir) {
		return fmt.Errorf("%s: %s", dir, why)
	}
	return nil
}

// inUse says what to do where a member runs.
func inUse(dir string, err error, advice string) error {
	if !errors.Is(err, persist.ErrInUse) {
		return err
	}
	return fmt.Errorf("%s: %w: a member runs there; %s", dir, persist.ErrInUse, advice)
}
