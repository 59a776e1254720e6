package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// PlanFile is a plan as a file keeps it, so that a run of it can be played again without a seed
// that draws it.
type PlanFile struct {
	Violation string `json:"violation,omitempty"` // how it failed, in one line
	Commit    string `json:"commit,omitempty"`    // of the program with which it did
	Plan      *Plan  `json:"plan"`
}

// NewPlanFile returns the file of a plan that failed. Of a panic, the file has the message without
// the stack, which names places of the machine on which it was built.
func NewPlanFile(p *Plan, violation error, commit string) PlanFile {
	line, _, _ := strings.Cut(violation.Error(), "\n")
	return PlanFile{Violation: line, Commit: commit, Plan: p}
}

// MarshalJSON implements json.Marshaler. What follows from the plan as it was drawn is in it, too:
// times of faults are in proportion to that.
func (p *Plan) MarshalJSON() ([]byte, error) {
	type fields Plan
	return json.Marshal(struct {
		*fields
		Hop, Bound time.Duration
	}{(*fields)(p), p.Hop(), p.Bound()})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Plan) UnmarshalJSON(text []byte) error {
	type fields Plan
	into := struct {
		*fields
		Hop, Bound *time.Duration
	}{(*fields)(p), &p.hop, &p.bound}
	if err := json.Unmarshal(text, &into); err != nil {
		return err
	}
	return p.check()
}

// check finds out whether the parts of a plan fit each other.
func (p *Plan) check() error {
	n := len(p.Nodes)
	switch {
	case p.Initial < 1 || p.Initial > n || n > 64 || len(p.Decls) == 0:
		return fmt.Errorf("a plan of %d initial members among %d nodes, and %d subgroups", p.Initial, n, len(p.Decls))
	case len(p.Inboxes) != n || len(p.Net.Kinds) != n || len(p.Net.Delays) != n || p.keeps() && len(p.Keep.Disks) != n:
		return fmt.Errorf("a plan of %d nodes, with inboxes of %d, pairs of %d and %d, and disks of %d", n, len(p.Inboxes), len(p.Net.Kinds), len(p.Net.Delays), len(p.Keep.Disks))
	}
	for i, node := range p.Nodes {
		if node.ID == 0 || node.ID >= 64 || node.Pace.Step <= 0 || len(p.Inboxes[i]) != len(p.Decls) || len(p.Net.Kinds[i]) != n || len(p.Net.Delays[i]) != n {
			return fmt.Errorf("node %d: its id, its pace, its inboxes or its pairs are none", node.ID)
		}
		for _, place := range node.Ask {
			if place < 0 || place >= n {
				return fmt.Errorf("node %d asks place %d of %d", node.ID, place, n)
			}
		}
	}
	for _, a := range p.Apps {
		if a.Node < 0 || a.Node >= n || a.Decl < 0 || a.Decl >= len(p.Decls) {
			return fmt.Errorf("an application of node place %d in subgroup %d", a.Node, a.Decl)
		}
	}
	for _, f := range p.Faults {
		if f.Kind == 0 || f.Kind >= faultKinds || f.Node < 0 || f.Node >= n || (f.Kind == OneWayCut || f.Kind == Accuse) && (f.Peer < 0 || f.Peer >= n) {
			return fmt.Errorf("a fault of kind %d, of node place %d and peer %d", f.Kind, f.Node, f.Peer)
		}
	}
	return nil
}

// text is what a file would keep.
func (p *Plan) text() []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Errorf("sim: a plan that is no JSON: %w", err)) // plain structs of numbers and strings
	}
	return text
}
