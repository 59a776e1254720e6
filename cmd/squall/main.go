// Squall shows and measures atomic multicast on one machine, with several processes of itself that
// form a group, and copies files to many machines at once.
//
// Each command lives in a package of its own below internal. This program has the commands that
// compile fast, so that a first "go run ./cmd/squall demo" takes half a minute; it executes
// squall-tools for the others.
package main

import (
	"fmt"
	"os"

	"github.com/squall-go/squall/cmd/squall/internal/cli"
	"github.com/squall-go/squall/cmd/squall/internal/copy"
	"github.com/squall-go/squall/cmd/squall/internal/demo"
	"github.com/squall-go/squall/cmd/squall/internal/rdmc"
	"github.com/squall-go/squall/cmd/squall/internal/status"
	"github.com/squall-go/squall/cmd/squall/internal/tools"
	"github.com/squall-go/squall/cmd/squall/internal/version"

	"github.com/spf13/cobra"
)

// commands are what this program does itself, and the names of the others.
func commands() []*cobra.Command {
	own := []*cobra.Command{copy.NewCommand(), copy.NewReceiveCommand(), demo.NewCommand(), rdmc.NewCommand(), status.NewCommand(), version.NewCommand()}
	return append(own, tools.Commands()...)
}

func main() {
	if args := os.Args[1:]; tools.Need(args) {
		fmt.Fprintln(os.Stderr, "squall:", tools.Exec(os.Stderr))
		os.Exit(1)
	}
	os.Exit(cli.Run(cli.NewRoot(commands()...), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
