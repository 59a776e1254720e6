package logs

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/persist"
)

func newRepairCommand() *cobra.Command {
	var asJSON, yes bool
	cmd := &cobra.Command{
		Use:   "repair [flags] DIR",
		Short: "Drop what is damaged in logs that no other member has",
		Long: `Repair reads the logs of a member that does not run, and drops the first record of each that is damaged with all that is behind it. The
files of a log of which nothing can be read are moved to damaged/ in the directory, and the log begins anew.

What is dropped is lost, so that this is the last resort, for a log that no other member of the last view has. Where others have it there is
nothing to do but to start the member: it drops what is damaged by itself, and gets it from them. A member that ended earlier may have most
of what is lost here: with a copy of its directory logs/LOG in the place of this one, instead, less is.

Look first with squall log verify, and keep a copy.`,
		Example: `  squall log verify /var/lib/squall
  squall log repair --yes /var/lib/squall`,
		Args:              arguments("DIR"),
		ValidArgsFunction: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := still(args[0], "a member that is started mends what others have; stop it and name its directory to lose what nobody has"); err != nil {
				return err
			}
			if !yes {
				return errors.New("what is damaged would be dropped for good: look with squall log verify, keep a copy, and say --yes")
			}
			r, err := repair(args[0])
			if asJSON {
				return errors.Join(err, printJSON(cmd.OutOrStdout(), &r))
			}
			_, fault := io.WriteString(cmd.OutOrStdout(), r.text())
			return errors.Join(err, fault)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&yes, "yes", false, "lose what is damaged")
	f.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

// Repairs is what "squall log repair --json" prints.
type Repairs struct {
	Dir  string       `json:"dir"`
	Logs []RepairedAs `json:"logs"`
}

// RepairedAs is what became of a log.
type RepairedAs struct {
	Log     string  `json:"log"`
	Fate    string  `json:"fate"`              // good, cut, anew, or left: others have it
	Dropped *uint64 `json:"dropped,omitempty"` // the number of the first record that is, of a log that was cut
	Damage  string  `json:"damage,omitempty"`  // of a log that begins anew
	Aside   string  `json:"aside,omitempty"`   // where the files of that one are
	Records uint64  `json:"records"`           // that are left
}

// The fates of logs.
const (
	fateGood = "good"
	fateCut  = "cut"
	fateAnew = "anew"
	fateLeft = "left"
)

// stopIt is the advice for what needs a whole directory for itself.
const stopIt = "stop it first"

// repair repairs all logs of a directory that nobody else has. What was done before an error is in the result.
func repair(dir string) (r Repairs, err error) {
	r = Repairs{Dir: dir, Logs: []RepairedAs{}}
	c := persist.StoreConfig{Dir: dir, ReadOnly: true}
	s, err := persist.Open(c)
	if err != nil {
		return r, inUse(dir, err, stopIt)
	}
	c = persist.StoreConfig{Dir: dir, Cluster: s.Cluster(), Node: s.Node()}
	if err := s.Close(); err != nil {
		return r, err
	}
	if s, err = persist.Open(c); err != nil {
		return r, inUse(dir, err, stopIt)
	}
	return r, errors.Join(r.all(s), s.Close())
}

func (r *Repairs) all(s *persist.Store) error {
	memory, err := restart.Load(s)
	if err != nil {
		return err
	}
	ids, err := s.Logs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		one := RepairedAs{Log: id.String(), Fate: fateLeft}
		if !memory.Elsewhere(restart.LogID(id)) {
			err = one.repair(s, id)
		}
		if err != nil {
			return fmt.Errorf("log %v: %w", id, err)
		}
		r.Logs = append(r.Logs, one)
	}
	return nil
}

// repair reads all of a log.
func (one *RepairedAs) repair(s *persist.Store, id persist.LogID) error {
	l, err := s.Log(persist.LogConfig{ID: id, Repair: true})
	if errors.Is(err, persist.ErrDamaged) { // the member makes it again, with the engine that it wants
		one.Fate, one.Damage = fateAnew, err.Error()
		one.Aside, err = s.SetAside(id)
		return err
	}
	if err != nil {
		return err
	}
	i := l.Info()
	one.Fate, one.Records = fateGood, i.Count
	if i.Repaired.Blocks > 0 {
		one.Fate, one.Dropped = fateCut, &i.Repaired.Record
	}
	return nil
}

// text is the result for people.
func (r *Repairs) text() string {
	var b strings.Builder
	for _, one := range r.Logs {
		switch one.Fate {
		case fateGood:
			fmt.Fprintf(&b, "%s: nothing is damaged, %s\n", one.Log, counted(int(one.Records), "record", "records"))
		case fateCut:
			fmt.Fprintf(&b, "%s: dropped record %d and what was behind it; %s left\n", one.Log, *one.Dropped, counted(int(one.Records), "record", "records"))
		case fateAnew:
			fmt.Fprintf(&b, "%s: begins anew; its files are in %s, and nothing could be read from them: %s\n", one.Log, one.Aside, one.Damage)
		case fateLeft:
			fmt.Fprintf(&b, "%s: left as it is, because other members have it: start this one, and it gets from them what it lacks\n", one.Log)
		}
	}
	return b.String()
}
