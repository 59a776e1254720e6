package sim

import (
	"errors"

	"github.com/squall-go/squall/internal/member"
)

// haltChecker checks B3: a member that halted is given nothing and accepts nothing.
type haltChecker struct{ unconcerned }

func (haltChecker) name() string { return "halt" }

func (haltChecker) offered(w *world, d *delivery) error {
	if err := d.proc().member.Err(); err != nil {
		return violated("B3", "%v is delivered after halting: %v", d, err)
	}
	return nil
}

func (haltChecker) end(w *world) error {
	for _, p := range w.procs {
		w.sometimes(HaltedUndelivered, p.told && p.undelivered())
	}
	return nil
}

// undelivered reports whether something that the process accepted was not delivered to it.
func (p *process) undelivered() bool {
	for _, l := range p.ledgers {
		if f := p.flows[l]; f != nil {
			if _, ok := l.missing(f.next); ok {
				return true
			}
		}
	}
	return false
}

// checkRefused checks that a claim is refused for no other reason than that the member halted, or
// leaves.
func checkRefused(w *world, p *process, err error) error {
	if reason := p.member.Err(); !(p.leaving && errors.Is(err, member.ErrClosed)) && (reason == nil || !errors.Is(err, reason)) {
		return violated("B3", "node %d refuses a claim: %v; it halted because of %v", p.self.ID, err, reason)
	}
	w.probes[SendAfterHalt]++
	return nil
}

// checkUnable checks that a member that may not send is no sender in the view in force.
func checkUnable(w *world, a *app, err error) error {
	p, provisioned := a.proc, false
	s := p.seat()
	for _, g := range s.record.groups {
		if g.decl != a.ledger.decl {
			continue
		}
		provisioned = provisioned || g.sg.Provisioned()
		if _, ok := g.sg.SenderRank(s.self); ok && p.mute>>a.ledger.decl&1 == 0 {
			return violated("B3", "node %d refuses a claim: %v; it is a sender of %q in view %d", p.self.ID, err, a.name, s.record.view.ID)
		}
	}
	if errors.Is(err, member.ErrNotProvisioned) == provisioned {
		return violated("B3", "node %d refuses a claim: %v; %q is provisioned: %v", p.self.ID, err, a.name, provisioned)
	}
	return nil
}

// checkAccepted checks that a member that halted accepts nothing.
func checkAccepted(w *world, p *process) error {
	if err := p.member.Err(); err != nil {
		return violated("B3", "node %d accepts a claim after halting: %v", p.self.ID, err)
	}
	return nil
}
