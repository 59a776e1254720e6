package show

import (
	"github.com/spf13/cobra"

	"github.com/squall-go/squall/internal/proc"
)

// Hidden returns the command of a program that other commands start.
func Hidden(p proc.Program) *cobra.Command {
	return &cobra.Command{
		Use: p.Name, Hidden: true, Args: cobra.NoArgs, SilenceUsage: true,
		Short: "a member process, started by another command",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
