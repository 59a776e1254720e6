package relay

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc/schedule"
)

// Whatever the schedule, the root never sends a byte before Needed, nor one that is Span behind it.
func TestARootSendsOnlyWithinItsSpan(t *testing.T) {
	for _, a := range []schedule.Algorithm{schedule.Sequential, schedule.Chain, schedule.Tree, schedule.Pipeline, schedule.Auto} {
		for nodes := 1; nodes <= 9; nodes++ {
			for _, size := range []int64{0, 1, 10, 95, 400} {
				t.Run(fmt.Sprint(a, "/", nodes, "/", size), func(t *testing.T) { sendWithin(t, a, nodes, size) })
			}
		}
	}
}

func sendWithin(t *testing.T, a schedule.Algorithm, nodes int, size int64) {
	c := Config{Algorithm: a, BlockBytes: 10, MaxMessage: 1000}
	for i := range nodes {
		c.Nodes = append(c.Nodes, order.NodeID(i+1))
	}
	r := New(c)
	var out Effects
	for place := 1; place < nodes; place++ {
		r.Attached(place, 0, false, &out)
	}
	span, err := r.Span(size)
	if err != nil || span > size {
		t.Fatalf("a span of %d: %v", span, err)
	}
	number, err := r.Start(size, 0, size, &out)
	if err != nil {
		t.Fatal(err)
	}
	for place := 1; place < nodes; place++ {
		if size > 0 {
			r.Step(place, &Control{Kind: Ready}, &out)
		}
	}
	last, reached := int64(0), int64(0)
	for s, ok := r.Next(); ok; s, ok = r.Next() {
		first, end := r.Needed(number), s.Offset+int64(s.Header.Length)
		if first < last || s.Offset < first || end-first > span {
			t.Fatalf("bytes [%d, %d) are sent; needed from %d, before that from %d; the span is %d", s.Offset, end, first, last, span)
		}
		last, reached = first, max(reached, end-first)
		r.BlockSent(&s, &out)
	}
	if nodes > 1 && r.Failure() == nil && reached > span || span > 0 && reached < span-int64(c.BlockBytes) {
		t.Errorf("the span is %d, %d bytes were needed at a time", span, reached)
	}
}
