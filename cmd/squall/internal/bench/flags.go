package bench

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Given returns the named flags that the command line sets, in its form.
func Given(f *pflag.FlagSet, names ...string) (all []string) {
	for _, name := range names {
		if f.Changed(name) {
			all = append(all, "--"+name)
		}
	}
	return all
}

// OneAtATime returns an error if the command line has more than one of some flags.
func OneAtATime(f *pflag.FlagSet, names ...string) error {
	if what := Given(f, names...); len(what) > 1 {
		return fmt.Errorf("%s: one of them at a time", strings.Join(what, " and "))
	}
	return nil
}

// Refuse returns an error that says why, if on and the command line has any of some flags.
func Refuse(f *pflag.FlagSet, on bool, why string, names ...string) error {
	if bad := Given(f, names...); on && len(bad) > 0 {
		return fmt.Errorf("%s: %s", strings.Join(bad, ", "), why)
	}
	return nil
}
