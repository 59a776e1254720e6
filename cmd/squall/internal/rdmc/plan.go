package rdmc

import (
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/rdmc/schedule"
)

// What fits on a screen, or in a file for people.
const (
	maxDrawnNodes  = 128
	maxDrawnBlocks = 1024
)

// planOptions are the flags of "plan", and what they come to.
type planOptions struct {
	nodes, blocks int
	schedule      string
	racks         []string
	rackSize      int
	json          bool

	plan *schedule.Plan
}

func newPlanCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Draw which node sends which block to which node in which step",
		Long: `Plan draws the schedule of one message: a row for each step and a column for each node that sends, and below in which step each block
comes to each node. Rank 0 is the root, which has all blocks from the start.

Steps are an order and no clock: a node sends as soon as it has the block and is through with its earlier sends.`,
		Example: `  squall rdmc plan                                    # the binomial pipeline among 8
  squall rdmc plan --nodes 13 --blocks 9              # pairs of nodes, where they are no power of two
  squall rdmc plan --schedule tree --nodes 7 --blocks 2
  squall rdmc plan --nodes 6 --racks a,a,a,b,b,b      # a pipeline between racks, and one in each
  squall rdmc plan --nodes 32 --rack-size 8 | less -S
  squall rdmc plan --nodes 5 --json | jq '.moves[] | select(.from == 0)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(cmd.Flags()); err != nil {
				return err
			}
			return o.run(cmd.OutOrStdout())
		},
	}
	o.declare(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("racks", "rack-size")
	show.Choices(cmd, "schedule", allSchedules...)
	show.NoFiles(cmd, "nodes", "blocks", "racks", "rack-size")
	return cmd
}

func (o *planOptions) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.IntVar(&o.nodes, "nodes", 8, "`members`, the root included")
	f.IntVar(&o.blocks, "blocks", 5, "`blocks` of the message")
	f.StringVar(&o.schedule, "schedule", "auto", "the `SCHEDULE`: "+strings.Join(allSchedules, ", ")+"; auto is the pipeline, or the hybrid if there are racks")
	f.StringSliceVar(&o.racks, "racks", nil, "a `label` for each member, a,a,b,b")
	f.IntVar(&o.rackSize, "rack-size", 0, "racks of so many `members`, in their order")
	f.BoolVar(&o.json, "json", false, "print the moves as one JSON object")
}

// complete works out what the flags come to, and reports all faults at once.
func (o *planOptions) complete(f *pflag.FlagSet) error {
	var faults errs.Faults
	a, err := schedule.Parse(o.schedule)
	faults.Wrap("--schedule", err)
	faults.If(o.rackSize < 0 || o.rackSize == 0 && f.Changed("rack-size"), "--rack-size %d: use 1 or more", o.rackSize)
	faults.If(!o.json && (o.nodes > maxDrawnNodes || o.blocks > maxDrawnBlocks),
		"--nodes %d --blocks %d: a drawing has at most %d and %d; use --json", o.nodes, o.blocks, maxDrawnNodes, maxDrawnBlocks)
	racks := o.racks
	if o.rackSize > 0 && o.nodes <= schedule.MaxNodes {
		racks = labels(o.nodes, o.rackSize)
	}
	if err == nil {
		o.plan, err = schedule.New(a, o.nodes, o.blocks, racks)
		faults.Join(err)
	}
	return faults.Err()
}

func (o *planOptions) run(out io.Writer) error {
	if o.json {
		return show.JSON(out, drawnPlan(o.plan))
	}
	fmt.Fprintf(out, "%v: %s\n\n", o.plan, formula(o.plan))
	return schedule.Draw(out, o.plan)
}

// Drawing is a plan as --json prints it.
type Drawing struct {
	Schedule string `json:"schedule"`
	Nodes    int    `json:"nodes"`
	Blocks   int    `json:"blocks"`
	Steps    int    `json:"steps"`
	Formula  string `json:"formula"`
	Moves    []Move `json:"moves"`
}

// Move is one block on its way.
type Move struct {
	Step  int32 `json:"step"`
	From  int32 `json:"from"`
	To    int32 `json:"to"`
	Block int32 `json:"block"`
}

func drawnPlan(p *schedule.Plan) Drawing {
	d := Drawing{Schedule: p.Algorithm().String(), Nodes: p.Nodes(), Blocks: p.Blocks(), Steps: p.Steps(), Formula: formula(p), Moves: []Move{}}
	for m := range p.All() {
		d.Moves = append(d.Moves, Move(m))
	}
	return d
}

// formula says where the number of steps comes from.
func formula(p *schedule.Plan) string {
	n, k := p.Nodes(), p.Blocks()
	rounds := bits.Len(uint(n - 1))
	flat := schedule.Steps(p.Algorithm(), n, k)
	switch {
	case n == 1:
		return "there is no receiver"
	case p.Algorithm() == schedule.Sequential:
		return fmt.Sprintf("%d blocks × %d receivers", k, n-1)
	case p.Algorithm() == schedule.Chain:
		return fmt.Sprintf("%d blocks + %d nodes − 2", k, n)
	case p.Algorithm() == schedule.Tree:
		return fmt.Sprintf("%d blocks × ⌈log2 %d⌉ = %d × %d", k, n, k, rounds)
	case flat != p.Steps():
		return fmt.Sprintf("leaders of racks take turns between two pipelines; one flat pipeline: %d + ⌈log2 %d⌉ − 1 = %d", k, n, flat)
	}
	return fmt.Sprintf("%d blocks + ⌈log2 %d⌉ − 1 = %d + %d − 1", k, n, k, rounds)
}

// allSchedules are the names of algorithms, in the order of their numbers.
var allSchedules = []string{
	schedule.Auto.String(), schedule.Sequential.String(), schedule.Chain.String(), schedule.Tree.String(), schedule.Pipeline.String(), schedule.Hybrid.String(),
}

// labels puts nodes into racks in their order, so many into each.
func labels(nodes, size int) []string {
	if size == 0 {
		return nil
	}
	racks := make([]string, max(nodes, 0))
	for i := range racks {
		racks[i] = "rack " + strconv.Itoa(i/size)
	}
	return racks
}
