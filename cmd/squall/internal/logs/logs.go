// Package logs is the command "squall log": it lists, reads, follows, checks, exports and repairs
// the logs of persistent subgroups, of a member that runs or of the directory of one that does not.
//
// Life of a call: the target is a directory, or the HOST:PORT of a member → a library of logs, the
// same for both → one log of it, named or the only one → its records, one line each, or as JSON, or
// raw.
//
// Only "squall log repair" writes to a directory of logs.
package logs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/logwire"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/persist"
	_ "github.com/squall-go/squall/persist/bolt"
	_ "github.com/squall-go/squall/persist/wal"
)

// NewCommand returns the command "log".
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Read, follow, verify, export and repair the logs of persistent subgroups",
		Long: `Log reads the logs of persistent subgroups, and changes nothing: only repair, which says so, does. A TARGET is the directory of a
member that does not run, or the HOST:PORT of a member that runs. A LOG is the name of a subgroup, with its shard after a dot if it has
several: orders.2.`,
		Example: `  squall log ls /var/lib/squall                        # which logs there are
  squall log cat localhost:7400 orders --since 10m     # what was logged in the last ten minutes
  squall log tail -f localhost:7400 orders             # and what comes
  squall log verify node1 node2 node3                  # whether three directories have the same records
  squall log dump /var/lib/squall orders --at 2026-03-04T05:06:07Z --out orders.jsonl`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newListCommand(), newCatCommand(), newTailCommand(), newVerifyCommand(), newDumpCommand(), newRepairCommand())
	return cmd
}

// target is where logs are read, and what it takes to get there.
type target struct {
	name    string
	secure  show.Certificates
	timeout time.Duration
	cmd     *cobra.Command // that this is the target of
}

func (t *target) declare(cmd *cobra.Command) {
	t.cmd = cmd
	f := cmd.Flags()
	f.DurationVar(&t.timeout, "timeout", 5*time.Second, "how long to wait for a member to answer, and for a time that is asked for to be settled")
	t.secure.Declare(f, ", for a member that uses TLS", "the members")
}

// note tells a person what goes on, beside the result.
func (t *target) note(format string, args ...any) {
	if t.cmd != nil {
		fmt.Fprintf(t.cmd.ErrOrStderr(), "%s: %s\n", t.cmd.CommandPath(), fmt.Sprintf(format, args...))
	}
}

// open opens the logs of a target.
func (t *target) open(ctx context.Context, name string) (library, error) {
	t.name = name
	if t.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %v: must be more than 0", t.timeout)
	}
	security, err := t.secure.Load()
	if err != nil {
		return nil, err
	}
	if i, err := os.Stat(name); err == nil && i.IsDir() {
		return openDirectory(ctx, name)
	} else if err == nil {
		return nil, fmt.Errorf("%s: is a file; name the directory that the member was started with", name)
	}
	if !show.IsAddress(name) {
		return nil, fmt.Errorf("%s: neither a directory nor HOST:PORT", name)
	}
	m := &member{logwire.Client{
		Dial: func(ctx context.Context) (net.Conn, error) {
			conn, err := port.Dial(ctx, name, port.KindLog, security)
			if errors.Is(err, port.ErrKindRefused) {
				err = fmt.Errorf("%w: the member has no logs, or has not started yet", err)
			}
			return conn, err
		},
		Times: wire.Times{Dial: t.timeout, Silence: max(t.timeout, 2*time.Second)},
		Lost:  func(why error) { t.note("%s is gone, and looked for until it is back: %v", name, why) },
		Back:  func() { t.note("%s is back", name) },
	}}
	return m, nil
}

// chosen opens a target and picks the log that the arguments name: TARGET [LOG].
func (t *target) chosen(ctx context.Context, args []string) (library, persist.Info, error) {
	l, err := t.open(ctx, args[0])
	if err != nil {
		return nil, persist.Info{}, err
	}
	name := ""
	if len(args) > 1 {
		name = args[1]
	}
	i, err := pick(ctx, l, args[0], name)
	if err != nil {
		return nil, i, errors.Join(err, l.Close())
	}
	return l, i, nil
}

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
	if _, err := os.Stat(dir); err != nil && show.IsAddress(dir) {
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

// completeDirectories completes any number of directories.
var completeDirectories = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
