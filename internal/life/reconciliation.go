package life

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Reconciliation brings logs to the ends that a restart agreed on, one after the other.
type Reconciliation struct {
	self    order.NodeID
	plan    []restart.Agreed // what is left of it
	pauses  wait.Backoff
	sources shard.Sources
	under   Effect
	why     []error // by source that failed, in this round
}

// Reconcile brings a process's logs to the ends of a plan. It has each effect performed, until it
// has come out.
func Reconcile(self order.NodeID, plan []restart.Agreed, pauses wait.Backoff, perform func(Effect) Result) error {
	m := NewReconciliation(self, plan, pauses)
	e := m.Start()
	for e.Do != Finish {
		e = m.Ended(perform(e))
	}
	return e.Err
}

// NewReconciliation makes the reconciliation of a process's logs.
func NewReconciliation(self order.NodeID, plan []restart.Agreed, pauses wait.Backoff) *Reconciliation {
	return &Reconciliation{self: self, plan: plan, pauses: pauses, sources: shard.Sources{Pauses: pauses}}
}

// Start returns the first effect.
func (m *Reconciliation) Start() Effect {
	for len(m.plan) > 0 && slices.ContainsFunc(m.plan[0].Sources, func(s restart.Source) bool { return s.Node == m.self }) {
		m.plan = m.plan[1:]
	}
	m.under = Effect{Do: Finish}
	if len(m.plan) > 0 {
		m.under = m.next(m.plan[0])
	}
	return m.under
}

// next returns what is next for a log.
func (m *Reconciliation) next(a restart.Agreed) Effect {
	if a.End == (order.Version{}) {
		return Effect{Do: EmptyLog, Log: a.ID}
	}
	var candidates []views.Member
	for _, s := range a.Sources {
		candidates = append(candidates, views.Member{ID: s.Node, Addr: s.Addr})
	}
	source, pause, left := m.sources.Next(candidates)
	switch {
	case !left:
		return Effect{Do: Finish, Err: fmt.Errorf("no process has the log of subgroup %q", a.ID.Name)}
	case source.ID == 0:
		return Effect{Do: Rest, Log: a.ID, Pause: pause}
	}
	return Effect{Do: CatchUp, Log: a.ID, Source: restart.Source{Node: source.ID, Addr: source.Addr}, Last: a.End}
}

// Ended says how the effect came out that is under way, and returns the next one.
func (m *Reconciliation) Ended(r Result) Effect {
	switch {
	case r.Outcome == Fatal || r.Outcome == Stopped:
		err := fmt.Errorf("log of subgroup %q: catching up: %w", m.under.Log.Name, r.Err)
		if r.Outcome == Fatal {
			err = restart.LogError{Err: err}
		}
		return Effect{Do: Finish, Err: errors.Join(append([]error{err}, m.why...)...)}
	case r.Outcome == Failed:
		m.why = append(m.why, r.Err)
		if r.Progress {
			m.sources.Progress()
		}
	case m.under.Do == Rest:
		m.why = nil
	default:
		m.plan, m.sources, m.why = m.plan[1:], shard.Sources{Pauses: m.pauses}, nil
	}
	return m.Start()
}
