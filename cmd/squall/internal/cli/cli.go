// Package cli is the root of the command line, for the programs squall and squall-tools.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/cmd/squall/internal/version"
)

// Run executes a command line, and returns the exit status: 0 is success, 1 a failure, 130 an
// interrupt. The first interrupt ends its context, the second one the process.
func Run(root *cobra.Command, args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	root.SetArgs(args)
	root.SetIn(in)
	printed := show.NewOutput(out)
	root.SetOut(printed)
	root.SetErr(errs)
	cmd, err := misnamed(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		err = printed.Err()
	}
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintf(errs, "%s: interrupted\n", cmd.CommandPath())
		return 130
	}
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			fmt.Fprintf(errs, "%s: %s\n", cmd.CommandPath(), show.Line(line))
		}
	}
	return 1
}

// NewRoot returns the command squall with commands below it.
func NewRoot(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "squall",
		Short: "Atomic multicast: several processes send, all deliver the same sequence",
		Example: `  squall demo                # three processes, one order, and how fast that was
  squall demo --help`,
		Version:       version.String(),
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagFault)
	root.AddCommand(commands...)
	return root
}
