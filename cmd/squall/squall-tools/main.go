// Squall-tools has all commands of squall. Program squall has the commands that compile fast, and
// executes this one for the others.
package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/bench/large"
	benchlogs "github.com/squall-go/squall/cmd/squall/internal/bench/logs"
	"github.com/squall-go/squall/cmd/squall/internal/bench/messages"
	benchobjects "github.com/squall-go/squall/cmd/squall/internal/bench/objects"
	benchrdmc "github.com/squall-go/squall/cmd/squall/internal/bench/rdmc"
	benchripc "github.com/squall-go/squall/cmd/squall/internal/bench/ripc"
	benchtopics "github.com/squall-go/squall/cmd/squall/internal/bench/topics"
	"github.com/squall-go/squall/cmd/squall/internal/cli"
	"github.com/squall-go/squall/cmd/squall/internal/copy"
	"github.com/squall-go/squall/cmd/squall/internal/demo"
	"github.com/squall-go/squall/cmd/squall/internal/fabric"
	"github.com/squall-go/squall/cmd/squall/internal/logs"
	"github.com/squall-go/squall/cmd/squall/internal/objects"
	"github.com/squall-go/squall/cmd/squall/internal/rdmc"
	"github.com/squall-go/squall/cmd/squall/internal/services"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/cmd/squall/internal/simulate"
	"github.com/squall-go/squall/cmd/squall/internal/status"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
	"github.com/squall-go/squall/cmd/squall/internal/topics"
	"github.com/squall-go/squall/cmd/squall/internal/version"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
)

func init() { testlab.Engines["bolt"], testlab.Engines["wal"] = bolt.Engine, wal.Engine }

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
		fabric.NewCommand(),
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

func run(args []string, in io.Reader, out, errs io.Writer) int {
	return cli.Run(newRoot(), args, in, out, errs)
}

func newRoot() *cobra.Command { return cli.NewRoot(commands()...) }
