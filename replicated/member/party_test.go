package member

import (
	"sync"
	"testing"
)

// The requests of a party wait until half of its answers are taken, whichever answers these are.
func TestAPartyGoesOnWhenHalfOfItsAnswersAreTaken(t *testing.T) {
	a := &answers{most: 100, mostWorking: 2, mostWorkingEach: 2, parties: map[string]*party{}, done: &sync.WaitGroup{}}
	for _, x := range []struct {
		begins, ends int
		waits        bool
	}{{60, 0, false}, {39, 0, false}, {1, 0, true}, {0, 39, true}, {10, 0, true}, {0, 20, true}, {0, 1, false}, {0, 50, false}} {
		if x.begins > 0 {
			a.begin("client", x.begins)
		} else if x.ends > 0 {
			a.end("client", x.ends, 0)
		} else {
			continue
		}
		p := a.parties["client"]
		if waits := p != nil && p.full; waits != x.waits || (a.full.Load() == 1) != x.waits {
			t.Errorf("after %+v the requests wait: %v", x, waits)
		}
	}
	if a.begin("client", 1); len(a.parties) != 1 {
		t.Error("a party with an answer is forgotten")
	}
	if a.end("client", 1, 0); len(a.parties) != 0 {
		t.Error("a party that has taken all is kept")
	}
}
