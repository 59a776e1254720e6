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

func describe(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	parts := []string{"squall", info.Main.Version}
	if info.Main.Version == "" || info.Main.Version == "(devel)" {
		parts[1] = "development"
	}
	// A version that Go derived from the commit names it already.
	if commit := settings["vcs.revision"]; commit != "" && !strings.Contains(parts[1], commit[:min(12, len(commit))]) {
		parts = append(parts, "commit "+commit[:min(12, len(commit))])
		if settings["vcs.modified"] == "true" {
			parts = append(parts, "(modified)")
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("%s %s/%s", info.GoVersion, runtime.GOOS, runtime.GOARCH)), " ")
}
