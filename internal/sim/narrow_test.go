package sim

import "testing"

// narrowPlan is a group whose links take several times FailAfter for the bytes of a ring.
func narrowPlan(seed uint64) *Plan {
	no := false
	p := Draw(seed, Limits{Nodes: 3, Messages: 200, Faults: &no})
	p.Net.SocketBytes = 0
	p.Bound() // FailAfter follows from it
	for a := range p.Nodes {
		for b := range p.Nodes {
			p.Net.Kinds[a][b] = 0
			p.Net.Delays[a][b].Base = p.bound / 4
		}
	}
	p.Net.SocketBytes = 64
	return p
}

// B2
func TestNobodyIsSilentWhoseBytesArrive(t *testing.T) {
	c := Campaign{First: 1, Count: 50, Draw: narrowPlan, Options: Options{Only: "live"}}
	if c.Run() != nil {
		t.Error(c.Err)
	}
}
