// Squall shows and measures atomic multicast on one machine, with several processes of itself that
// form a group, and copies files to many machines at once.
//
// Each command lives in a package of its own below internal; this file puts them together and turns
// errors into an exit status: 0 is success, 1 a failure, 130 an interrupt.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/bench/large"
	benchlogs "github.com/squall-go/squall/cmd/squall/internal/bench/logs"
	"github.com/squall-go/squall/cmd/squall/internal/bench/messages"
	benchobjects "github.com/squall-go/squall/cmd/squall/internal/bench/objects"
	benchrdmc "github.com/squall-go/squall/cmd/squall/internal/bench/rdmc"
	benchripc "github.com/squall-go/squall/cmd/squall/internal/bench/ripc"
	benchtopics "github.com/squall-go/squall/cmd/squall/internal/bench/topics"
	"github.com/squall-go/squall/cmd/squall/internal/copy"
	"github.com/squall-go/squall/cmd/squall/internal/demo"
	"github.com/squall-go/squall/cmd/squall/internal/logs"
	"github.com/squall-go/squall/cmd/squall/internal/objects"
	"github.com/squall-go/squall/cmd/squall/internal/rdmc"
	"github.com/squall-go/squall/cmd/squall/internal/services"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/cmd/squall/internal/simulate"
	"github.com/squall-go/squall/cmd/squall/internal/status"
	"github.com/squall-go/squall/cmd/squall/internal/topics"
	"github.com/squall-go/squall/cmd/squall/internal/version"
)

// commands are all that squall can do.
func commands() []*cobra.Command {
	measure := messages.NewCommand()
	measure.AddCommand(benchrdmc.NewCommand(), large.NewCommand(), benchlogs.NewCommand(), benchripc.NewCommand(), benchobjects.NewCommand(benchripc.SocketTrip), benchtopics.NewCommand())
	return []*cobra.Command{
		measure,
		show.Hidden(bench.MemberProgram(messages.Workload, benchrdmc.Workload, large.Workload, benchlogs.Workload, benchripc.Workload, benchobjects.Workload, benchtopics.Workload)),
		objects.NewCallCommand(),
		copy.NewCommand(),
		copy.NewReceiveCommand(),
		demo.NewCommand(),
		logs.NewCommand(),
		objects.NewListCommand(),
		rdmc.NewCommand(),
		services.NewCommand(),
		simulate.NewCommand(),
		status.NewCommand(),
		topics.NewCommand(),
		version.NewCommand(),
	}
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run executes a command line. The first interrupt ends its context, the second one the process.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	root := newRoot()
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

func newRoot() *cobra.Command {
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
	root.AddCommand(commands()...)
	return root
}
