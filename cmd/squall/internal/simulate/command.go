package simulate

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/sim"
)

// usualSeeds is a campaign of some seconds.
const usualSeeds = 1000

// shrinkTime is for how long a campaign makes the plan that failed smaller.
const shrinkTime = time.Minute

// maxNodes and maxMessages bound what one run may take.
const (
	maxNodes    = 16
	maxMessages = 100_000
)

// options are the command's flags, and what they come to.
type options struct {
	seeds    string
	seed     uint64
	nodes    int
	messages int
	faults   []string
	trace    bool
	jobs     int
	json     bool
	coverage bool
	shrink   bool
	plan     string
	save     string

	first, count uint64
	single       bool
	drawn        *sim.Plan // that of --plan; nil: plans are drawn from seeds
	patience     time.Duration
	limits       sim.Limits
	play         sim.Options // how plans are run; tests break something here
}

// The help of this command.
const (
	simulateHelp = `Sim draws a plan from each seed: members, subgroups, how the network behaves, what the applications send, who joins, and what
goes wrong. Then it steps real members through it in virtual time, and checks every promise after each event. The same seed is the same run,
event by event, as long as the code is the same.

Sim stops at the first violation, with exit status 1, and prints the seed, what is violated, the commit, the command that plays the seed again, and the
last part of its trace. In a trace a node has a column and an event a line, so that a view change is a shape on the screen.

A failing plan is made smaller, as long as it fails in the same way: it loses faults, members, subgroups, messages and features. The plan that
is left is kept in a file, which --plan plays. A campaign does so for a minute, --seed and --plan with --shrink as long as it takes.`
	simulateExamples = `  squall sim                                         # seeds 1 to 1000
  squall sim --seeds 100000 --coverage               # many, and which rare branches they took
  squall sim --seeds 5000-6000 --faults crash,leave  # only members that end, in one way or the other
  squall sim --seeds 2000 --nodes 4 --faults partition
  squall sim --seed 4711 --trace | less -S           # everything that happens in one run
  squall sim --seed 4711 --shrink --save small.json  # the smallest plan that fails as this seed does
  squall sim --plan small.json --trace | less -S     # what happens in it
  squall sim --seeds 20000 --json | jq .seeds_per_second`
)

// NewCommand returns the command "sim".
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "sim",
		Short:   "Run whole groups in virtual time, break them in every way, and check every promise",
		Long:    simulateHelp,
		Example: simulateExamples,
		Args:    cobra.NoArgs,
		RunE:    show.Run(o.complete, o.run),
	}
	o.declare(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("seed", "seeds", "plan")
	for _, limit := range []string{"nodes", "messages", "faults"} {
		cmd.MarkFlagsMutuallyExclusive("plan", limit)
	}
	cmd.RegisterFlagCompletionFunc("faults", completeFaults)
	show.NoFiles(cmd, "seeds", "seed", "nodes", "messages", "jobs")
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.seeds, "seeds", fmt.Sprintf("1-%d", usualSeeds), "`range` of seeds, A-B, or N for 1-N")
	f.Uint64Var(&o.seed, "seed", 0, "play this `seed` alone")
	f.IntVar(&o.nodes, "nodes", 0, fmt.Sprintf("`members` that found the group, 1 to %d (default: drawn)", maxNodes))
	f.IntVar(&o.messages, "messages", 0, "`messages` of all applications together, about (default: drawn)")
	f.StringSliceVar(&o.faults, "faults", nil, "`kinds` of faults that may be drawn, or none: "+strings.Join(sim.FaultNames(), ", ")+" (default: all)")
	f.BoolVar(&o.trace, "trace", false, "with --seed or --plan: print everything that happens")
	f.IntVar(&o.jobs, "jobs", 0, "`seeds` played at the same time (default: one for each core)")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	f.BoolVar(&o.coverage, "coverage", false, "print how often each rare branch was taken, and by how many seeds")
	f.BoolVar(&o.shrink, "shrink", true, "make a plan that fails smaller; with --seed and --plan only if this flag is given")
	f.StringVar(&o.plan, "plan", "", "play the plan in this `file`")
	f.StringVar(&o.save, "save", "", "`file` for the plan that is left (default: one in the directory for temporary files)")
}

// completeFaults completes the last name of a list.
func completeFaults(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before, last := "", typed
	if i := strings.LastIndex(typed, ","); i >= 0 {
		before, last = typed[:i+1], typed[i+1:]
	}
	names := sim.FaultNames()
	if before == "" {
		names = append(names, none)
	}
	var all []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name, last) && !slices.Contains(strings.Split(before, ","), name) {
			all = append(all, before+name)
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// none stands for no faults at all.
const none = "none"

// complete works out what the flags come to, and reports all faults at once.
func (o *options) complete(f *pflag.FlagSet) error {
	var faults errs.Faults
	o.single = f.Changed("seed") || o.plan != ""
	o.patience = shrinkTime
	if o.single {
		o.shrink, o.patience = o.shrink && f.Changed("shrink"), 0
	}
	if o.plan != "" {
		faults.Wrap("--plan", o.readPlan())
	}
	if o.first, o.count = o.seed, 1; !o.single {
		var err error
		o.first, o.count, err = parseSeeds(o.seeds)
		faults.Join(err)
	}
	faults.If(o.nodes < 0 || o.nodes > maxNodes || o.nodes == 0 && f.Changed("nodes"),
		"--nodes %d: use 1 to %d, or leave it out to have it drawn", o.nodes, maxNodes)
	faults.If(o.messages < 0 || o.messages > maxMessages || o.messages == 0 && f.Changed("messages"),
		"--messages %d: use 1 to %d, or leave it out to have it drawn", o.messages, maxMessages)
	faults.If(o.jobs < 0 || o.jobs == 0 && f.Changed("jobs"),
		"--jobs %d: use 1 or more, or leave it out for one for each of the %d cores", o.jobs, runtime.GOMAXPROCS(0))
	faults.If(o.trace && !o.single, "--trace: shows one run; say which one with --seed or --plan")
	faults.If(o.trace && o.json, "--trace, --json: use one of them; the trace is for people")
	o.limits = sim.Limits{Nodes: o.nodes, Messages: o.messages}
	faults.Join(o.chooseFaults())
	return faults.Err()
}

// chooseFaults turns the names of faults into limits.
func (o *options) chooseFaults() (err error) {
	if slices.Contains(o.faults, none) {
		if len(o.faults) > 1 {
			return fmt.Errorf("--faults %s: none goes with nothing else", strings.Join(o.faults, ","))
		}
		no := false
		o.limits.Faults = &no
		return nil
	}
	for _, name := range o.faults {
		k, err := sim.FaultNamed(name)
		if err != nil {
			return fmt.Errorf("--faults: %w, or none", err)
		}
		o.limits.Kinds = o.limits.Kinds.With(k)
	}
	return nil
}

// parseSeeds reads A-B, or N.
func parseSeeds(text string) (first, count uint64, err error) {
	from, to, ranged := strings.Cut(text, "-")
	if !ranged {
		from, to = "1", text
	}
	first, errFirst := strconv.ParseUint(from, 10, 63)
	last, errLast := strconv.ParseUint(to, 10, 63)
	if errFirst != nil || errLast != nil || last < first {
		return 0, 0, fmt.Errorf("--seeds %q: use A-B with A no more than B, or N for 1-N", text)
	}
	return first, last - first + 1, nil
}
