package member

import (
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

// What sends to clients does not wait for its next heartbeat.
func TestASampleWithoutAnOrderWakesWhatWaits(t *testing.T) {
	p, err := newBackend(Config{Subgroup: squall.SubgroupConfig{Name: "s"}, Unordered: squall.SubgroupConfig{Name: "fast", Mode: squall.Unordered}})
	if err != nil {
		t.Fatal(err)
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	go p.pass(nil)
	if err := p.Wait(testutil.Within(t)); err != nil {
		t.Error(err)
	}
}
