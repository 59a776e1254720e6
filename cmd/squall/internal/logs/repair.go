package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// The help of this command.
const (
	repairHelp = `Repair reads all logs of a member that does not run, or one of them.

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

Look first with squall log verify, and keep a copy.`
	repairExamples = `  squall log verify /var/lib/squall
  squall log repair --yes /var/lib/squall
  squall log repair --yes --give-up /var/lib/squall orders`
)

func newRepairCommand() *cobra.Command {
	var asJSON, yes, giveUp bool
	cmd := &cobra.Command{
		Use:               "repair [flags] DIR [LOG]",
		Short:             "Repair logs of a member that does not run, and drop damaged records that no other member has",
		Long:              repairHelp,
		Example:           repairExamples,
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
			r, err := repair(cmd.Context(), args[0], w)
			if errors.Is(err, context.Canceled) {
				return err
			}
			return errors.Join(err, r.print(cmd.OutOrStdout(), asJSON))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&yes, "yes", false, "lose damaged records that no other member has")
	f.BoolVar(&giveUp, "give-up", false, "lose what others had and cannot give any more, too, and let what is left here be the whole log")
	f.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

func (r *Repairs) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return show.JSONLine(w, r)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

// wanted is what is to be repaired, and how.
type wanted struct {
	log    string // empty: all
	giveUp bool   // what others had is not waited for
}

// stopIt is the advice for what needs a whole directory for itself.
const stopIt = "stop it first"

// repairer repairs the logs of a directory.
type repairer struct {
	wanted
	ctx    context.Context
	store  *persist.Store
	memory *restart.Memory
}

// repair repairs the logs of a directory. What was done before an error is in the result.
func repair(ctx context.Context, dir string, w wanted) (r Repairs, err error) {
	r = Repairs{Dir: dir, Logs: []RepairedAs{}}
	c := persist.Config{Dir: dir, ReadOnly: true}
	s, err := persist.Open(ctx, c)
	if err != nil {
		return r, inUse(dir, err, stopIt)
	}
	c = persist.Config{Dir: dir, Cluster: s.Cluster(), Node: s.Node()}
	if err := s.Close(); err != nil {
		return r, err
	}
	if s, err = persist.Open(ctx, c); err != nil {
		return r, inUse(dir, err, stopIt)
	}
	m := &repairer{wanted: w, ctx: ctx, store: s}
	return r, errors.Join(m.all(&r), s.Close())
}

func (m *repairer) all(r *Repairs) (err error) {
	if m.memory, err = restart.Load(m.store); err != nil {
		return err
	}
	ids, err := m.chosen()
	if err != nil {
		return err
	}
	var left []error
	for _, id := range ids {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		one := RepairedAs{Log: id.String()}
		if err := m.repairLog(&one, id); err != nil {
			return fmt.Errorf("log %v: %w", id, err)
		}
		r.Logs = append(r.Logs, one)
		if one.stuck {
			left = append(left, fmt.Errorf("log %v is left as it is", id))
		}
	}
	return errors.Join(left...)
}

// chosen are the logs that are meant. To give something up is said of one log: of another one,
// others may have all.
func (m *repairer) chosen() (ids []persist.LogID, err error) {
	all, err := m.store.Logs()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, id := range all {
		names = append(names, id.String())
		if m.log == "" || m.log == id.String() || m.log == id.Name {
			ids = append(ids, id)
		}
	}
	if m.giveUp && len(ids) == 0 {
		ids = m.known()
	}
	switch {
	case m.log != "" && slices.Contains(names, m.log):
		ids = slices.DeleteFunc(ids, func(id persist.LogID) bool { return id.String() != m.log })
	case m.log != "" && len(ids) == 0:
		return nil, fmt.Errorf("%s: has no log %q; there are %s", m.store.Dir(), m.log, strings.Join(names, ", "))
	case m.giveUp && len(ids) > 1:
		return nil, fmt.Errorf("%s: has several logs, say which one: %s", m.store.Dir(), strings.Join(names, ", "))
	}
	return ids, nil
}

// known returns the logs of the last view that the arguments name, if the directory has none of
// them.
func (m *repairer) known() (ids []persist.LogID) {
	v := m.memory.View()
	if v == nil {
		return nil
	}
	for _, sg := range v.Subgroups {
		id := persist.LogID{Name: sg.Name, Shard: sg.Shard}
		if sg.Mode == views.Persistent && (m.log == id.String() || m.log == id.Name) {
			ids = append(ids, id)
		}
	}
	return ids
}

// repairLog does what can be done for a log here.
func (m *repairer) repairLog(one *RepairedAs, id persist.LogID) error {
	elsewhere := m.memory.State().Elsewhere(restart.LogID(id)) && !m.giveUp
	var err error
	switch {
	case m.giveUp && !m.here(id):
		one.Fate, one.Damage = fateAnew, "this directory has nothing of it"
	case m.store.Missing(id):
		err = m.missing(one, id, elsewhere)
	case elsewhere:
		err = m.inspect(one, id)
	default:
		err = m.repair(one, id)
	}
	if errors.Is(err, persist.ErrOtherLog) {
		one.Fate, one.Damage, one.stuck = fateLeft, err.Error(), true
		return nil
	}
	if one.GivenUp = m.giveUp && err == nil; one.GivenUp {
		var lost []views.Holder
		lost, err = m.memory.GiveUp(restart.LogID(id))
		for _, k := range lost {
			if k.ID != m.store.Node() && !slices.Contains(one.Lost, k.ID) {
				one.Lost = append(one.Lost, k.ID)
			}
		}
	}
	return err
}

// here reports whether the directory has a log, or had it.
func (m *repairer) here(id persist.LogID) bool {
	all, err := m.store.Logs()
	return err != nil || slices.Contains(all, id)
}

// inspect reads all of a log that others have. That it lacks something is on disk before its damage
// is: a crash may come between.
func (m *repairer) inspect(one *RepairedAs, id persist.LogID) error {
	report, err := m.store.VerifyLog(m.ctx, id)
	one.report(&report)
	if errors.Is(err, persist.ErrDamaged) {
		one.Fate, one.Damage, err = fateNoted, err.Error(), nil
	}
	if err != nil || one.Fate == fateGood {
		return err
	}
	if err := m.memory.MarkIncomplete(restart.LogID(id)); err != nil {
		return err
	}
	return m.store.NoteDamage(id, errors.New(one.Damage))
}

// missing is a log without files. Its member makes it anew, with the engine that it wants.
func (m *repairer) missing(one *RepairedAs, id persist.LogID, elsewhere bool) (err error) {
	switch {
	case m.giveUp:
		one.Fate, one.Damage = fateAnew, "its files are missing, and what was in them is lost"
		_, err = m.store.SetAside(id)
	case elsewhere:
		one.Fate, one.Damage = fateLeft, "its files are missing: this member, when it is started, gets all of it from others"
	default:
		one.Fate, one.stuck = fateLeft, true
		one.Damage = "its files are missing, and no other member has the log: put them back, or lose their records with --give-up"
	}
	return err
}

// repair reads all of a log that no other member has, and drops the damaged records.
func (m *repairer) repair(one *RepairedAs, id persist.LogID) error {
	c := persist.LogConfig{ID: id, Repair: true}
	l, err := m.store.Log(m.ctx, c)
	if errors.Is(err, persist.ErrSnapshot) {
		if one.Snapshot, err = m.store.SetSnapshotAside(id); err == nil {
			l, err = m.store.Log(m.ctx, c)
		}
	}
	if errors.Is(err, persist.ErrDamaged) {
		one.Fate, one.Damage = fateAnew, m.fault(id, err)
		one.Aside, err = m.store.SetAside(id)
		return err
	}
	if err == nil {
		i := l.Info()
		one.describe(&i)
	}
	return err
}

// fault is what is wrong with a log that cannot be opened, without what its member would do about
// it.
func (m *repairer) fault(id persist.LogID, damage error) string {
	if r, err := m.store.VerifyLog(m.ctx, id); err == nil && len(r.Faults) > 0 {
		return r.Faults[0].String()
	}
	return damage.Error()
}
