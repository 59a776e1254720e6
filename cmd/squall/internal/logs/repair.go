package logs

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

func newRepairCommand() *cobra.Command {
	var asJSON, yes, giveUp bool
	cmd := &cobra.Command{
		Use:   "repair [flags] DIR [LOG]",
		Short: "Repair logs of a member that does not run, and drop damaged records that no other member has",
		Long: `Repair reads all logs of a member that does not run, or one of them.

If no other member of the last view has the log, repair truncates it at the first damaged record. Unreadable log files and damaged snapshots are
renamed in logs/. What is dropped is lost, so that this is the last
resort: a member that ended earlier may have most of it, and with a copy of its directory logs/LOG in the place of this one less is lost.

Of a log that other members have, nothing is dropped here. If it is damaged, that is noted: the member, when it is started, drops what is
damaged and gets it from them.

--give-up is for a log that others of the last view had, too, and that none of them can give any more: theirs are damaged, or their disks
are gone; or that a shard waits for which has no members, because no disk that had the log is left. What is damaged here is dropped, as if nobody else had it, and what is left counts as the whole log: all other members follow it
when the group goes on, and drop what they have beyond it. So do this at the member with the longest log, and at that one only; verify
and repair show how long a log is, and where it is damaged. A directory that has nothing of the log can give it up, too: then it begins anew.
The nodes for whose disks this one stands in are named. If one of these disks comes back later, what it has beyond this log is dropped.

Look first with squall log verify, and keep a copy.`,
		Example: `  squall log verify /var/lib/squall
  squall log repair --yes /var/lib/squall
  squall log repair --yes --give-up /var/lib/squall orders`,
		Args:              arguments("DIR", "LOG"),
		ValidArgsFunction: completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := still(args[0], "a member that is started repairs its log from the others; stop it and name its directory to lose what no member has"); err != nil {
				return err
			}
			if !yes {
				return errors.New("what is damaged would be dropped permanently: look with squall log verify, keep a copy, and say --yes")
			}
			w := wanted{giveUp: giveUp}
			if len(args) > 1 {
				w.log = args[1]
			}
			ctx := cmd.Context()
			r, err := until(ctx, func() (Repairs, error) { return repair(ctx, args[0], w) })
			if errors.Is(err, context.Canceled) {
				return err
			}
			if asJSON {
				return errors.Join(err, show.JSONLine(cmd.OutOrStdout(), &r))
			}
			_, fault := io.WriteString(cmd.OutOrStdout(), r.text())
			return errors.Join(err, fault)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&yes, "yes", false, "lose damaged records that no other member has")
	f.BoolVar(&giveUp, "give-up", false, "lose what others had and cannot give any more, too, and let what is left here be the whole log")
	f.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}
