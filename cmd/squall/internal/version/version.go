// Package version tells which squall this is, from what the Go tool wrote into the executable.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// NewCommand returns the command "version".
func NewCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), String()) },
	}
}

// String is the version in a line.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "squall, built without version information"
	}
	return describe(info)
}

// Commit is the commit that the program was built from, and whether files were changed since. It is
// empty if the build did not record it.
func Commit() (commit string, modified bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", false
	}
	return commitOf(info)
}

func commitOf(info *debug.BuildInfo) (commit string, modified bool) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return commit, modified
}

func describe(info *debug.BuildInfo) string {
	parts := []string{"squall", info.Main.Version}
	if info.Main.Version == "" || info.Main.Version == "(devel)" {
		parts[1] = "development"
	}
	// A version that Go derived from the commit names it already.
	if commit, modified := commitOf(info); commit != "" && !strings.Contains(parts[1], commit[:min(12, len(commit))]) {
		parts = append(parts, "commit "+commit[:min(12, len(commit))])
		if modified {
			parts = append(parts, "(modified)")
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("%s %s/%s", info.GoVersion, runtime.GOOS, runtime.GOARCH)), " ")
}
