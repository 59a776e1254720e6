package show

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// Run is what a command does without arguments: it works out what its flags come to, and then runs.
func Run(complete func(*pflag.FlagSet) error, run func(ctx context.Context, out, messages io.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := complete(cmd.Flags()); err != nil {
			return err
		}
		return run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
}
