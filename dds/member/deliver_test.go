package member

import (
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/internal/testutil"
)

// Futures and acknowledgements name the version up to which records are delivered.
func TestTheVersionOfARunIsThatOfItsLastRecord(t *testing.T) {
	p, err := newBackend(Config{Subgroup: squall.SubgroupConfig{Name: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	batch := []squall.Message{{View: 3, Seq: 7}, {View: 3, Seq: 9}}
	for i := range batch {
		if batch[i].Data, err = space.AppendLapse(nil, core.Now(), space.Lapse{}); err != nil {
			t.Fatal(err)
		}
	}
	if taken := p.deliver(batch); taken != 2 || p.version != batch[1].Version() || p.Space.Position() != 2 {
		t.Errorf("%d records are delivered, version %v, position %d", taken, p.version, p.Space.Position())
	}
}

// What is kept of a sender that goes on slowly is let go after twice as many looks as make it old.
func TestMessagesThatAreKeptGetOld(t *testing.T) {
	p, err := newBackend(Config{Subgroup: squall.SubgroupConfig{Name: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	p.keeper.runs = []run{{first: 1}}
	for look := range uint64(5 * oldLooks) {
		p.Space.Advance(look + 1)
		if to := p.keeper.overdue(); to > look || (look+1)%oldLooks == 0 && to+2*oldLooks < look {
			t.Errorf("look %d lets go up to %d", look, to)
		}
	}
}

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
