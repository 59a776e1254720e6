package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// wanted is what is to be repaired, and how.
type wanted struct {
	log    string // empty: all
	giveUp bool   // what others had is not waited for
}

// stopIt is the advice for what needs a whole directory for itself.
const stopIt = "stop it first"

// mender repairs the logs of a directory.
type mender struct {
	wanted
	ctx    context.Context
	store  *persist.Store
	memory *restart.Memory
}

// repair repairs the logs of a directory. What was done before an error is in the result.
func repair(ctx context.Context, dir string, w wanted) (r Repairs, err error) {
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
	m := &mender{wanted: w, ctx: ctx, store: s}
	return r, errors.Join(m.all(&r), s.Close())
}

func (m *mender) all(r *Repairs) (err error) {
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
		if err := m.mend(&one, id); err != nil {
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
func (m *mender) chosen() (ids []persist.LogID, err error) {
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
func (m *mender) known() (ids []persist.LogID) {
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

// mend does what can be done for a log here.
func (m *mender) mend(one *RepairedAs, id persist.LogID) error {
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
func (m *mender) here(id persist.LogID) bool {
	all, err := m.store.Logs()
	return err != nil || slices.Contains(all, id)
}

// inspect reads all of a log that others have. That it lacks something is on disk before its damage
// is: a crash may come between.
func (m *mender) inspect(one *RepairedAs, id persist.LogID) error {
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
func (m *mender) missing(one *RepairedAs, id persist.LogID, elsewhere bool) (err error) {
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
func (m *mender) repair(one *RepairedAs, id persist.LogID) error {
	c := persist.LogConfig{ID: id, Repair: true, Context: m.ctx}
	l, err := m.store.Log(c)
	if errors.Is(err, persist.ErrSnapshot) {
		if one.Snapshot, err = m.store.SetSnapshotAside(id); err == nil {
			l, err = m.store.Log(c)
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
func (m *mender) fault(id persist.LogID, damage error) string {
	if r, err := m.store.VerifyLog(m.ctx, id); err == nil && len(r.Faults) > 0 {
		return r.Faults[0].String()
	}
	return damage.Error()
}
