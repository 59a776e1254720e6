package sst_test

import (
	"fmt"

	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
)

// Three members share a table of counters. Each counts in its own row and pushes that to the others,
// and all of them see the same minimum over the rows: what everybody has done.
func Example() {
	all := []order.Rank{0, 1, 2}
	layout := sst.NewLayout(len(all))
	counter := make([]int, len(all)) // where each row has its counter
	for _, r := range all {
		counter[r] = layout.Line(r, "progress", "done")
	}
	members := open(layout, all)
	for _, t := range members {
		defer t.Close()
		sst.Store(t.Line(t.Self(), counter[t.Self()]), 0, 10+uint64(t.Self()))
		t.PushLine(all, counter[t.Self()])
		t.Flush()
	}
	for _, t := range members {
		t.Poll()
		least := sst.Load(t.Line(0, counter[0]), 0)
		for _, r := range all[1:] {
			least = min(least, sst.Load(t.Line(r, counter[r]), 0))
		}
		fmt.Printf("member %d: everybody has done %d\n", t.Self(), least)
	}
	// Output:
	// member 0: everybody has done 10
	// member 1: everybody has done 10
	// member 2: everybody has done 10
}

// open connects the members within this process. Between processes, a fabric over TCP or shared memory
// opens the table that NewTable takes, one at each member.
func open(l *sst.Layout, all []order.Rank) (tables []*sst.Table) {
	var ends []simnet.Endpoint
	for _, r := range all {
		ends = append(ends, simnet.Endpoint{ID: order.NodeID(r + 1), Shape: l.Shape(r)})
	}
	for _, memory := range simnet.New(1, simnet.Options{}).Open(ends) {
		t, err := sst.NewTable(l, memory)
		if err != nil {
			panic(err)
		}
		tables = append(tables, t)
	}
	return tables
}
