package member

import (
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/simulate"
)

// ordering is the process of a copy that is alone in the second of two shards. It keeps what is to
// be ordered.
type ordering struct {
	simulate.Host
	view uint64
	sent [][]byte
}

func (h *ordering) ID() uint64         { return 1 }
func (h *ordering) Wall() uint64       { return 1 }
func (h *ordering) Soon(f func())      { f() }
func (h *ordering) Send(record []byte) { h.sent = append(h.sent, record) }

func (h *ordering) View() (id uint64, shards [][]simulate.Member) {
	return h.view, [][]simulate.Member{nil, {{Node: 1}}}
}

func (h *ordering) Secret(string, []byte) []byte { return make([]byte, client.ProofBytes) }

// What a handler sent is ordered once more only where it was not executed, and in another view: its
// order may take longer each time than a member waits that forwards it.
func TestWhatACopyHasExecutedOrInFlightIsNotOrderedAgain(t *testing.T) {
	bump := replicated.NewCommand[int, int]("bump")
	executed := 0
	object := New(squall.SubgroupConfig{Name: "bumped", Shards: 2}, func() *int { return new(int) },
		Handle(bump, func(*int, *Context, int) (int, error) { executed++; return executed, nil }))
	c, err := object.Simulate().Copy()
	if err != nil {
		t.Fatal(err)
	}
	h, delivered := &ordering{view: 1}, uint64(0)
	deliver := func() {
		for len(h.sent) > 0 {
			record := h.sent[0]
			h.sent = h.sent[1:]
			delivered++
			c.Deliver(1, delivered, 1, 1, record, false, func([]byte, uint64) {})
		}
	}
	c.Join(h, func() uint32 { return 1 })
	c.Installed()
	deliver() // which operations there are
	to := &desk{object: c.(*simulatedCopy).o, shard: 2}
	s := &machine.Sent{Cursor: invoke.Cursor{View: 1, Seq: 1, Index: 1}, Operation: "bump", Data: []byte{1}}
	r := forwarding(to.id(), "source", invoke.Cursor{}, s, h.Secret)
	request := r.AppendTo(nil)
	answers := 0
	forward := func() { c.Take(2, request, func([]byte) { answers++ }) }
	if forward(); answers != 0 || len(h.sent) != 1 {
		t.Fatalf("at first: %d answers, %d records", answers, len(h.sent))
	}
	if forward(); answers != 1 || len(h.sent) != 1 { // the earlier request is given up
		t.Fatalf("in flight: %d answers, %d records", answers, len(h.sent))
	}
	h.view = 2
	if forward(); answers != 1 || len(h.sent) != 2 {
		t.Fatalf("in the next view: %d answers, %d records", answers, len(h.sent))
	}
	if deliver(); answers != 3 || executed != 1 {
		t.Fatalf("in the order: %d answers, executed %d times", answers, executed)
	}
	if forward(); answers != 4 || len(h.sent) != 0 {
		t.Errorf("forwarded again: %d answers, %d records", answers, len(h.sent))
	}
}
