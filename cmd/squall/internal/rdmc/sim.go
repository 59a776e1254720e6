package rdmc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/rdmc/schedule"
)

// What one case may take: some seconds.
const (
	maxNodes  = 1024
	maxMoves  = 4 << 20 // blocks that all members receive together
	maxBlocks = schedule.MaxBlocks
)

// simOptions are the flags of "sim", and what they come to.
type simOptions struct {
	figures                   []string
	nodes                     string
	schedules                 []string
	size, block               string
	senders                   string
	rate                      string
	latency, overhead, jitter time.Duration
	seed                      uint64
	intake                    string
	rackSize                  int
	oversubscription          float64
	slowLinks                 []string
	plot                      string
	json                      bool

	chosen []Figure
}

func newSimCommand() *cobra.Command {
	var o simOptions
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Compute how long schedules take on modelled links",
		Long: `Sim plays schedules on modelled links in virtual time, and says how long a message takes, how far apart its receivers are done, and
what crosses racks. It makes these figures, or with --nodes one of its own:

  algorithms  256 and 8 MiB to 2 to 16 members by each schedule
  scale       256 MiB to up to 1,024, and how far apart they are done
  overlap     groups with the same members, of which all, half or one send
  racks       the same across racks with oversubscribed links, by a flat pipeline and by the hybrid
  slow-link   what one link at half the rate leaves of the bandwidth, next to the published formula
  intake      what it costs if receivers take blocks as they come instead of in the order of their schedule
  rdma        what RDMA allows ordered messages that their sender writes to every member, next to published measurements; it has its own links

Nothing is measured: what it says of a network is as good as the rate, latency, overhead and jitter that it is given.`,
		Example: `  squall rdmc sim                                            # all figures as tables
  squall rdmc sim --figure scale,racks --plot /tmp/plots     # some, and as SVG
  squall rdmc sim --json --rate 100Gbit --latency 2us        # every point with all that is known of it
  squall rdmc sim --nodes 2-16,64 --size 1GiB --schedule chain,pipeline
  squall rdmc sim --nodes 64 --slow-link 0-1:5Gbit --jitter 200us --seed 7
  squall rdmc sim --nodes 16,64 --rack-size 8 --oversubscription 4 --senders half --schedule pipeline,hybrid
  squall rdmc sim --figure slow-link --json | jq '.figures[].curves[].name'`,
		Args: cobra.NoArgs,
		RunE: show.Run(o.complete, o.run),
	}
	o.declare(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("figure", "nodes")
	o.completions(cmd)
	return cmd
}

func (o *simOptions) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringSliceVar(&o.figures, "figure", nil, "`figures`: "+strings.Join(groups, ", ")+" (default: all)")
	f.StringVar(&o.nodes, "nodes", "", "a figure of its own over so many `members`, 2-16,32,64; with the flags below that say so")
	f.StringSliceVar(&o.schedules, "schedule", nil, "with --nodes: `schedules` (default: all; hybrid if there are racks)")
	f.StringVar(&o.size, "size", "256MiB", "with --nodes: `size` of the message")
	f.StringVar(&o.senders, "senders", "one", "with --nodes: the `NUMBER` of senders, or one, half or all (more than there are is all), each to a group of all members")
	f.StringSliceVar(&o.slowLinks, "slow-link", nil, "with --nodes: pairs of members with another rate between them, `A-B:RATE`")
	f.StringVar(&o.block, "block", "1MiB", "`size` of blocks")
	f.StringVar(&o.rate, "rate", "10Gbit", "`rate` at which a member sends, and receives at the same time, per second")
	f.DurationVar(&o.latency, "latency", 20*time.Microsecond, "`time` from the end of a send to its arrival")
	f.DurationVar(&o.overhead, "overhead", 5*time.Microsecond, "`time` for which each block keeps its sender and receiver busy, next to its bytes")
	f.DurationVar(&o.jitter, "jitter", 20*time.Microsecond, "longest `delay` before a send; it is drawn for each")
	f.Uint64Var(&o.seed, "seed", 1, "`seed` of the jitter")
	f.StringVar(&o.intake, "intake", intakes[0].name, "`order` in which a receiver takes blocks that several members send to it, in-turn or as-they-come")
	f.IntVar(&o.rackSize, "rack-size", 8, "`members` in a rack; with --nodes there are racks only if it is given")
	f.Float64Var(&o.oversubscription, "oversubscription", 4, "rates of a rack's members together, over that of its uplink and of its downlink: a `factor`")
	f.StringVar(&o.plot, "plot", "", "draw figures as SVG into this `directory`")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
}

func (o *simOptions) completions(cmd *cobra.Command) {
	show.Choices(cmd, "figure", groups...)
	show.Choices(cmd, "schedule", allSchedules[1:]...)
	show.Choices(cmd, "intake", intakes[0].name, intakes[1].name)
	show.Choices(cmd, "senders", "one", "half", "all")
	_ = cmd.MarkFlagDirname("plot") // the flag is there
	show.NoFiles(cmd, "nodes", "size", "slow-link", "block", "rate", "latency", "overhead",
		"jitter", "seed", "rack-size", "oversubscription")
}

// ownFlags matter for a figure of one's own only.
var ownFlags = []string{"schedule", "size", "senders", "slow-link"}

// complete works out what the flags come to, and reports all faults at once.
func (o *simOptions) complete(f *pflag.FlagSet) error {
	l, blockBytes, err := o.links()
	var faults errs.Faults
	faults.Join(err)
	if o.nodes == "" {
		faults.Join(o.published(f))
	}
	if o.nodes != "" {
		inRacks := f.Changed("rack-size") || f.Changed("oversubscription")
		o.chosen, err = o.own(l, blockBytes, inRacks)
		faults.Join(err)
	}
	if err := faults.Err(); err != nil {
		return err
	}
	if o.nodes == "" {
		o.choose(all(l, blockBytes))
	}
	return o.bounded()
}

// published judges the flags for figures that are not one's own.
func (o *simOptions) published(f *pflag.FlagSet) error {
	var faults errs.Faults
	for _, flag := range ownFlags {
		faults.If(f.Changed(flag), "--%s: the figures have their own; say for which --nodes", flag)
	}
	for _, name := range o.figures {
		faults.If(!slices.Contains(groups, name), "--figure: %q is none of %s", name, strings.Join(groups, ", "))
	}
	return faults.Err()
}

func (o *simOptions) choose(figures []Figure) {
	for _, figure := range figures {
		if len(o.figures) == 0 || slices.Contains(o.figures, figure.group) {
			o.chosen = append(o.chosen, figure)
		}
	}
}

// links reads the flags that all figures share.
func (o *simOptions) links() (l links, blockBytes int64, err error) {
	var faults errs.Faults
	l = links{latency: o.latency, overhead: o.overhead, jitter: o.jitter, seed: o.seed, rackSize: o.rackSize, oversubscription: o.oversubscription}
	l.rate, err = parseRate(o.rate)
	faults.Wrap("--rate", err)
	blockBytes, err = parseSize(o.block)
	faults.Wrap("--block", err)
	for i, d := range []time.Duration{o.latency, o.overhead, o.jitter} {
		faults.If(d < 0 || d > time.Minute, "--%s %v: use 0 to 1m", []string{"latency", "overhead", "jitter"}[i], d)
	}
	l.intake, err = parseIntake(o.intake)
	faults.Join(err)
	faults.If(o.rackSize < 1, "--rack-size %d: use 1 or more", o.rackSize)
	faults.If(!(o.oversubscription >= 0.1 && o.oversubscription <= 1000),
		"--oversubscription %g: use 0.1 to 1000", o.oversubscription)
	return l, blockBytes, faults.Err()
}

// own makes the figures of --nodes: the same cases, by what is asked of them.
func (o *simOptions) own(l links, blockBytes int64, inRacks bool) ([]Figure, error) {
	nodes, errNodes := parseNodes(o.nodes, maxNodes)
	bytes, errSize := parseSize(o.size)
	var faults errs.Faults
	faults.Wrap("--nodes", errNodes)
	faults.Wrap("--size", errSize)
	var err error
	l.slowLinks, err = parseSlow(o.slowLinks)
	faults.Join(err)
	who, err := parseSenders(o.senders)
	faults.Join(err)
	if !inRacks {
		l.rackSize, l.oversubscription = 0, 0
	}
	algorithms, err := o.algorithms(inRacks)
	faults.Join(err)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	base := setting{bytes: bytes, blockBytes: blockBytes, links: l, undisturbed: len(l.slowLinks) > 0}
	f := Figure{Name: "rdmc-own", Title: fmt.Sprintf("%s, %s", o.size, who.name), YLabel: timeLabel, value: milliseconds}
	f.logX = nodes[len(nodes)-1] > 16*nodes[0]
	for _, a := range algorithms {
		f.Curves = append(f.Curves, curve(a.String(), base, nodes, func(s *setting) { s.schedule, s.senders = a, min(s.nodes, who.of(s.nodes)) }))
	}
	return f.views(), nil
}

// views are time and skew of the same cases, and if something is slow, what it leaves of the
// bandwidth.
func (f Figure) views() []Figure {
	g, h := f, f
	g.Name, g.YLabel, g.value = f.Name+"-skew", skewLabel, skew
	h.Name, h.YLabel, h.value = f.Name+"-left", "part of the bandwidth that what is slow leaves", left
	g.Curves, h.Curves = slices.Clone(f.Curves), slices.Clone(f.Curves)
	if f.Curves[0].settings[0].undisturbed {
		return []Figure{f, g, h}
	}
	return []Figure{f, g}
}

// algorithms returns the algorithms of --schedule.
func (o *simOptions) algorithms(inRacks bool) (algorithms []schedule.Algorithm, err error) {
	var faults errs.Faults
	for _, name := range o.schedules {
		a, err := schedule.Parse(name)
		faults.Wrap("--schedule", err)
		algorithms = append(algorithms, a)
	}
	if len(o.schedules) == 0 {
		algorithms = slices.Clone(flat)
		if inRacks {
			algorithms = append(algorithms, schedule.Hybrid)
		}
	}
	return algorithms, faults.Err()
}

// parseSenders reads one, half, all or a number.
func parseSenders(text string) (sending, error) {
	for _, who := range senders {
		if strings.HasPrefix(who.name, text+" ") {
			return who, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return sending{}, fmt.Errorf("--senders %q: use one, half, all or a number", text)
	}
	return sending{text + " send", func(int) int { return n }}, nil
}

// bounded refuses what would take minutes.
func (o *simOptions) bounded() error {
	for _, f := range o.chosen {
		for _, c := range f.Curves {
			for _, s := range c.settings {
				blocks := (s.bytes-1)/s.blockBytes + 1
				if blocks > maxBlocks || blocks*int64(s.senders)*int64(s.nodes) > maxMoves {
					return fmt.Errorf("%s: %d senders of %d blocks among %d are too much to play: use larger blocks with --block", f.Name, s.senders, blocks, s.nodes)
				}
			}
		}
	}
	return nil
}
