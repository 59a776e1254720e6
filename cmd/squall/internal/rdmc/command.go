package rdmc

import (
	"github.com/spf13/cobra"
)

// NewCommand returns the command "rdmc".
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rdmc",
		Short: "Large messages: draw their schedules, and compute how long they take",
		Example: `  squall rdmc plan --nodes 13 --blocks 9   # who sends which block to whom in which step
  squall rdmc sim                          # how long schedules take on modelled links`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newPlanCommand(), newSimCommand())
	return cmd
}
