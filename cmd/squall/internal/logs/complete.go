package logs

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// completeTarget completes TARGET as a directory, and LOG as a log in it.
func completeTarget(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return nil, cobra.ShellCompDirectiveFilterDirs
	case 1:
		return logNames(cmd, args[0], typed), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// logNames are the logs of a directory. Members are not asked: a shell that waits for a machine is
// no help.
func logNames(cmd *cobra.Command, target, typed string) (names []cobra.Completion) {
	if i, err := os.Stat(target); err != nil || !i.IsDir() {
		return nil
	}
	d, err := openDirectory(context.Background(), target)
	if err != nil {
		return nil
	}
	defer d.Close()
	ids, _ := d.store.Logs()
	for _, id := range ids {
		if name := id.String(); strings.HasPrefix(name, typed) {
			names = append(names, name)
		}
	}
	return names
}

// oneDirectory completes a directory, and nothing behind it.
func oneDirectory(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeDirectories completes any number of them.
func completeDirectories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// noFiles says of flags that they are followed by no file's name.
func noFiles(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		cmd.RegisterFlagCompletionFunc(f, cobra.NoFileCompletions)
	}
}
