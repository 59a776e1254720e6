package fabrictest

import (
	"slices"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// earlyPushes has every node push a line and some bytes as soon as it has its table, and never
// again.
func earlyPushes(t *testing.T, open Open) {
	shape := shapeOf(2, 64<<10)
	tables := early(t, open, 4, shape)
	all := everybody(tables)
	moves := make([][]int, len(tables)) // by table and rank
	for _, table := range tables {
		self := table.Self()
		moves[self] = make([]int, len(tables))
		table.OnMove(func(r order.Rank) { moves[self][r]++ })
		own := table.Row(self)[shape.ControlBytes:]
		for at := range own {
			own[at] = pattern(self, uint64(at))
		}
		table.Push(all, shape.ControlBytes, len(own))
		store(table, fabric.LineBytes, uint64(self)+1)
		table.PushLine(all, fabric.LineBytes)
		table.Flush()
	}
	together(t, tables, func(table *fabric.Table) bool {
		return !slices.ContainsFunc(all, func(r order.Rank) bool { return load(table, r, fabric.LineBytes) != uint64(r)+1 })
	})
	for _, table := range tables {
		for _, r := range all {
			if !slices.Equal(table.Row(r)[shape.ControlBytes:], tables[r].Row(r)[shape.ControlBytes:]) {
				t.Errorf("F6: the word of rank %d is visible at rank %d, the bytes pushed before it are not", r, table.Self())
			}
			if r != table.Self() && (!table.Linked(r) || moves[table.Self()][r] > 1) {
				t.Errorf("rank %d: rank %d is linked: %v; its row moved %d times", table.Self(), r, table.Linked(r), moves[table.Self()][r])
			}
		}
	}
}

// earlyGuards makes every node write a byte and then its guard, again and again, from before its
// links are up until all nodes saw enough guards.
func earlyGuards(t *testing.T, open Open) {
	const writes = 400
	shape := shapeOf(2, fabric.LineBytes*((writes+fabric.LineBytes)/fabric.LineBytes))
	tables := early(t, open, 3, shape)
	all := everybody(tables)
	together(t, tables, func(table *fabric.Table) bool {
		self := table.Self()
		if k := load(table, self, fabric.LineBytes); k < writes {
			table.Row(self)[shape.ControlBytes+int(k)] = pattern(self, k) | 1
			table.Push(all, shape.ControlBytes+int(k), 1)
			store(table, fabric.LineBytes, k+1)
			table.PushLine(all, fabric.LineBytes)
		}
		finished := true
		for _, r := range all {
			guard, bytes := load(table, r, fabric.LineBytes), table.Row(r)[shape.ControlBytes:]
			for k := range guard {
				if bytes[k] != pattern(r, k)|1 {
					t.Errorf("F2: rank %d: the guard of rank %d is %d, byte %d is %#x", self, r, guard, k, bytes[k])
					return true
				}
			}
			finished = finished && guard == writes
		}
		return finished
	})
}

// frozenEarly freezes a row as soon as the table is there. It stays as it is; the others go on.
func frozenEarly(t *testing.T, open Open) {
	tables := early(t, open, 3, shapeOf(2, 4096))
	freezer, rest := tables[0], tables[:2]
	freezer.Freeze(2)
	frozen := slices.Clone(freezer.Row(2))
	all := everybody(tables)
	for _, table := range tables {
		store(table, fabric.LineBytes, 1)
		table.PushLine(all, fabric.LineBytes)
	}
	together(t, rest, func(table *fabric.Table) bool {
		return load(table, 1-table.Self(), fabric.LineBytes) == 1
	})
	for range 100 {
		freezer.Poll()
		freezer.Flush()
	}
	if !slices.Equal(freezer.Row(2), frozen) || freezer.Linked(2) {
		t.Error("F4: the row changed after Freeze")
	}
	if f := freezer.Failures(); len(f) > 0 {
		t.Errorf("F5: the node that freezes sees a failure: %v", f)
	}
}

// nothingLeftOfEarly closes tables at all stages of their links' coming up.
func nothingLeftOfEarly(t *testing.T, open Open) {
	world := func(k int) {
		t.Run("world", func(t *testing.T) {
			tables := early(t, open, 3, shapeOf(2, 64<<10))
			all := everybody(tables)
			for range k {
				for _, table := range tables {
					table.PushLine(all, fabric.LineBytes)
					table.Poll()
					table.Flush()
				}
			}
			tables[1].Freeze(2)
		})
	}
	world(1000)
	before := Resources()
	for k := range 6 {
		world(k * k * k)
	}
	Settle(t, before)
}
