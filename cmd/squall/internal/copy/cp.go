package copy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc/schedule"
)

// maxReceivers is how many a push may have.
const maxReceivers = 1000

// maxBlockBytes bounds --block: a block must fit into a message.
const maxBlockBytes = messageBytes

// options are the flags of "squall cp".
type options struct {
	force    bool
	follow   bool
	rack     string
	schedule string
	block    string
	json     bool
	quiet    bool
	secure   securityFlags
}

// NewCommand returns the command "cp".
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "cp [flags] FILE|DIR… HOST:PORT[,HOST:PORT…]…",
		Short: "Push files and directories to many machines at once",
		Long: `Cp pushes files and directories to machines on which "squall recv" waits. Every receiver passes on what it has to the next, block by
block, so sending to many takes hardly longer than sending to one.

A FILE arrives in the receiver's directory under its own name, a DIR with everything below it; of "DIR/." only what is in it arrives.
Permissions, times, empty directories and symbolic links that stay inside are kept. All files are compared by SHA-256. Either all
receivers have everything in the end, or none has anything of it; a file that is there already is a reason to refuse, unless
--force is given.

What looks like HOST:PORT is a receiver; a file with such a name is written ./NAME. Exit status 0 says that everything is everywhere.`,
		Example: `  squall recv --token-file token /srv/images            # on each of the machines, first
  squall cp --token-file token disk.img node{1..4}:7411
  squall cp release/ models/. a:7411,b:7411 c:7411      # a directory, and what is in another one
  squall cp --force --json big.bin $(cat machines) | jq .bytes_per_second
  squall cp --rack b12 --schedule hybrid disk.img node{1..32}:7411`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := o.complete(args)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), p, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.declare(cmd.Flags())
	show.Choices(cmd, "schedule", scheduleNames()...)
	return cmd
}

// scheduleNames are what --schedule may say.
func scheduleNames() (names []string) {
	for a := schedule.Auto; a <= schedule.Hybrid; a++ {
		names = append(names, a.String())
	}
	return names
}

func (o *options) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.BoolVarP(&o.force, "force", "f", false, "overwrite files that the receivers have")
	f.BoolVarP(&o.follow, "follow", "L", false, "push what symbolic links point to, not the links")
	f.StringVar(&o.schedule, "schedule", schedule.Auto.String(), "`schedule` by which receivers pass blocks on: "+strings.Join(scheduleNames(), ", "))
	f.StringVar(&o.block, "block", "", "`size` of what is passed on at once, like 256KiB (default: what fits)")
	f.StringVar(&o.rack, "rack", "", "`name` of the rack that this machine is in; receivers say theirs")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
	o.secure.declare(f)
}

// complete determines the files to push and their receivers, and reports all faults at once.
func (o *options) complete(args []string) (*push, error) {
	var faults errs.Faults
	p := &push{rack: o.rack, force: o.force}
	var err error
	p.who, err = o.secure.load()
	faults.Join(err)
	if p.algorithm, err = schedule.Parse(o.schedule); err != nil {
		faults.Add("--schedule %s: use one of %s", o.schedule, strings.Join(scheduleNames(), ", "))
	}
	if o.block != "" {
		n, err := humanize.ParseBytes(o.block)
		faults.If(err != nil || n < 1 || n > maxBlockBytes,
			"--block %s: use 1 to %d bytes, for instance 256KiB", o.block, maxBlockBytes)
		p.block = int(min(n, maxBlockBytes))
	}
	files, addrs, err := sort(args)
	faults.Join(err)
	p.receivers = receiversAt(addrs)
	if len(faults.All) > 0 { // before much is walked
		return nil, faults.Err()
	}
	if p.src, err = scan(files, o.follow); err != nil {
		return nil, err
	}
	if len(p.src.entries) == 0 {
		return nil, fmt.Errorf("%s: nothing to push, not even a directory", strings.Join(files, ", "))
	}
	return p, nil
}

// receiversAt gives receivers their ids, in the order of the command line.
func receiversAt(addrs []string) (all []*receiver) {
	for i, addr := range addrs {
		all = append(all, &receiver{id: order.NodeID(i + 1), addr: addr})
	}
	return all
}

// sort tells files from receivers.
func sort(args []string) (files, addrs []string, err error) {
	var errs []error
	for _, arg := range args {
		list, ok := addresses(arg)
		if !ok {
			files = append(files, arg)
			continue
		}
		if _, err := os.Lstat(arg); err == nil {
			errs = append(errs, fmt.Errorf("%s: a receiver, or the file of that name? write ./%s for the file", arg, arg))
		}
		for _, addr := range list {
			if slices.Contains(addrs, addr) {
				errs = append(errs, fmt.Errorf("%s: is named twice", addr))
			}
			addrs = append(addrs, addr)
		}
	}
	switch {
	case len(addrs) == 0:
		errs = append(errs, fmt.Errorf("no receiver: none of %s is HOST:PORT", strings.Join(args, ", ")))
	case len(addrs) > maxReceivers:
		errs = append(errs, fmt.Errorf("%d receivers: at most %d", len(addrs), maxReceivers))
	case len(files) == 0:
		errs = append(errs, errors.New("nothing to push: name a file or directory before the receivers"))
	}
	errs = append(errs, mixed(addrs))
	return files, addrs, errors.Join(errs...)
}

// addresses reads HOST:PORT[,HOST:PORT…].
func addresses(arg string) (list []string, ok bool) {
	if strings.ContainsAny(arg, "/\\") {
		return nil, false
	}
	for addr := range strings.SplitSeq(arg, ",") {
		if !show.IsAddress(addr) {
			return nil, false
		}
		list = append(list, addr)
	}
	return list, true
}

// mixed refuses addresses that mean something else at each receiver: they pass on to each other
// under the names that are given here.
func mixed(addrs []string) error {
	var local, other string
	for _, addr := range addrs {
		host, _, _ := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			local = addr
		} else {
			other = addr
		}
	}
	if local != "" && other != "" {
		return fmt.Errorf("%s, %s: the second machine cannot reach the first under that name; use its name on the network", local, other)
	}
	return nil
}

// run pushes, and prints what came of it.
func (o *options) run(ctx context.Context, p *push, out, errs io.Writer) error {
	var bar *show.Progress
	p.begun = func() {
		if !o.quiet {
			bar = newProgress(errs, "to "+show.Counted(len(p.receivers), "receiver", "receivers"), p.src.total)
		}
	}
	p.told = func(bytes int64) { bar.Set(bytes) }
	err := p.run(ctx)
	bar.End()
	r := o.result(p, err)
	switch {
	case o.json:
		return errors.Join(err, show.JSONLine(out, r))
	case err != nil:
		return err
	}
	_, err = io.WriteString(out, r.text())
	return err
}

// result is what came of a push.
func (o *options) result(p *push, err error) *Pushed {
	r := &Pushed{Tally: tallyOf(p.src.entries, p.src.total), Schedule: o.schedule}
	if err != nil {
		r.Error = err.Error()
	} else {
		r.Seconds, r.BytesPerSecond = p.took.Seconds(), perSecond(p.src.total, p.took.Seconds())
	}
	for _, at := range p.receivers {
		one := Receiver{Addr: at.addr, Rack: at.rack, Faults: at.refused}
		if at.failed != nil && err != nil {
			one.Faults = append(one.Faults, at.failed.Error())
		}
		r.Receivers = append(r.Receivers, one)
	}
	return r
}
