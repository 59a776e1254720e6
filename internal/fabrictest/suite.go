package fabrictest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// Open opens the tables of one view with n members, by rank, whose rows all have the same shape.
// Their links may be coming still, and must come up by themselves. Run closes the tables; what else
// was opened is for t.Cleanup.
type Open func(t testing.TB, n int, shape fabric.RowShape) []*fabric.Table

// Run tries a fabric.
func Run(t *testing.T, open Open) {
	t.Run("F1 a word is never torn", func(t *testing.T) { wordsAreWhole(t, open) })
	t.Run("F2 bytes are there when their guard is", func(t *testing.T) { bytesBeforeGuard(t, open) })
	t.Run("F2 guards overtake neither bytes nor guards", func(t *testing.T) { guards(t, open) })
	t.Run("F2 a slow reader gets everything, and costs little", func(t *testing.T) { slowReader(t, open) })
	t.Run("rows converge whatever the order of pushes", func(t *testing.T) { rowsConverge(t, open) })
	t.Run("F4 a frozen replica never changes", func(t *testing.T) { frozenStays(t, open) })
	t.Run("F5 a closed peer is reported once", func(t *testing.T) { failureOnce(t, open) })
	t.Run("F6 what is pushed before the links are up arrives", func(t *testing.T) { earlyPushes(t, open) })
	t.Run("F2 early pushes do not overtake one another", func(t *testing.T) { earlyGuards(t, open) })
	t.Run("F4 a row that is frozen while its link comes stays so", func(t *testing.T) { frozenEarly(t, open) })
	t.Run("closing leaves nothing behind", func(t *testing.T) { nothingLeft(t, open) })
	t.Run("closing while links are coming leaves nothing behind", func(t *testing.T) { nothingLeftOfEarly(t, open) })
}

const (
	patience = 30 * time.Second // for what takes milliseconds
	mib      = 1 << 20
)

func uintptrOf(mem []byte) uintptr { return uintptr(unsafe.Pointer(&mem[0])) }

// shapeOf is a row of some lines and some bytes.
func shapeOf(lines, bytes int) fabric.RowShape {
	control := lines * fabric.LineBytes
	return fabric.RowShape{ControlBytes: control, RowBytes: control + bytes}
}

// opened opens tables, has them closed when the test ends, and waits for their links.
func opened(t testing.TB, open Open, n int, shape fabric.RowShape) []*fabric.Table {
	t.Helper()
	tables := early(t, open, n, shape)
	linked(t, tables)
	return tables
}

// linked waits for all links of some tables.
func linked(t testing.TB, tables []*fabric.Table) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, table := range tables {
		if err := table.Await(ctx); err != nil {
			t.Fatalf("rank %d: %v", table.Self(), err)
		}
	}
}

// early opens tables whose links may be coming still, and has them closed when the test ends.
func early(t testing.TB, open Open, n int, shape fabric.RowShape) []*fabric.Table {
	t.Helper()
	tables := open(t, n, shape)
	t.Cleanup(func() {
		for _, table := range tables {
			if err := table.Close(); err != nil {
				t.Errorf("rank %d: close: %v", table.Self(), err)
			}
		}
	})
	return tables
}

// scaled says how much of a run a short test does.
func scaled(n int) int {
	if testing.Short() {
		return n / 8
	}
	return n
}

func everybody(tables []*fabric.Table) (ranks []order.Rank) {
	for r := range tables {
		ranks = append(ranks, order.Rank(r))
	}
	return ranks
}

// together steps every table on a goroutine of its own, poll, step, flush, until all steps say that
// they are done. A node that is done goes on polling and flushing: others may need it.
func together(t testing.TB, tables []*fabric.Table, step func(table *fabric.Table) (done bool)) {
	t.Helper()
	var remaining atomic.Int32
	remaining.Store(int32(len(tables)))
	deadline := time.Now().Add(patience)
	var nodes sync.WaitGroup
	for _, table := range tables {
		nodes.Go(func() {
			for done := false; remaining.Load() > 0; runtime.Gosched() {
				table.Poll()
				if !done && step(table) {
					done = true
					remaining.Add(-1)
				}
				table.Flush()
				for _, f := range table.Failures() {
					t.Errorf("rank %d: rank %d failed: %v", table.Self(), f.Rank, f.Err)
					remaining.Store(0)
				}
				if time.Now().After(deadline) {
					t.Errorf("rank %d: not done after %v (it is itself done: %v)", table.Self(), patience, done)
					remaining.Store(0)
				}
			}
		})
	}
	nodes.Wait()
}

// until steps one table by hand until something holds.
func until(t testing.TB, table *fabric.Table, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); runtime.Gosched() {
		table.Poll()
		table.Flush()
		if time.Now().After(deadline) {
			t.Fatalf("rank %d: not within %v: %s", table.Self(), patience, what)
		}
	}
}

func load(table *fabric.Table, r order.Rank, off int) uint64 {
	return atomic.LoadUint64(fabric.Word(table.Row(r), off))
}

func store(table *fabric.Table, off int, v uint64) {
	atomic.StoreUint64(fabric.Word(table.Row(table.Self()), off), v)
}

// wordsAreWhole has every node flip its words between two patterns that differ in all bits, and
// look at the others'.
func wordsAreWhole(t *testing.T, open Open) {
	const line, flips = fabric.LineBytes, 16000
	const last = 0x5555555555555555
	patterns := [2]uint64{0x0123456789abcdef, ^uint64(0x0123456789abcdef)}
	tables := opened(t, open, 3, shapeOf(3, 0))
	flipped := make([]int, len(tables))
	all, total := everybody(tables), scaled(flips)
	together(t, tables, func(table *fabric.Table) bool {
		if n := &flipped[table.Self()]; *n <= total {
			v := patterns[*n%2]
			if *n == total {
				v = last
			}
			for w := range fabric.WordsPerLine {
				store(table, line+8*w, v)
			}
			*n++
			table.PushLine(all, line)
		}
		finished := flipped[table.Self()] > total
		for _, r := range all {
			for w := range fabric.WordsPerLine {
				v := load(table, r, line+8*w)
				if v != 0 && v != last && v != patterns[0] && v != patterns[1] {
					t.Errorf("F1: rank %d sees %#x in word %d of rank %d", table.Self(), v, w, r)
					return true
				}
				finished = finished && v == last
			}
		}
		return finished
	})
}

// ring is the size of a ring of bytesBeforeGuard, sentOff and seenOff the lines of its counters.
const ring, sentOff, seenOff = mib, fabric.LineBytes, 2 * fabric.LineBytes

// ringUse is a node's part in bytesBeforeGuard.
//
//	line 1, word 0: sent        bytes that are written, by their owner
//	line 2, word r: seen[r]     bytes of rank r that the owner of this row has checked
type ringUse struct {
	random *rand.Rand
	sent   uint64
	seen   []uint64
}

// pattern is the byte at a position of a stream, different for every node and lap.
func pattern(r order.Rank, at uint64) byte { return byte(at*31 + at>>8 + uint64(r)*101 + 1) }

// bytesBeforeGuard streams far more than a ring's bytes from every node to every other one. Space
// is used again when all nodes have acknowledged it, so a guard that overtakes its bytes shows the
// bytes of the lap before.
func bytesBeforeGuard(t *testing.T, open Open) {
	shape := shapeOf(3, ring)
	tables := opened(t, open, 3, shape)
	all, total := everybody(tables), uint64(scaled(8*mib))
	seed := rand.Uint64()
	uses := make([]ringUse, len(tables))
	for r := range uses {
		uses[r] = ringUse{random: rand.New(rand.NewPCG(seed, uint64(r))), seen: make([]uint64, len(tables))}
	}
	together(t, tables, func(table *fabric.Table) bool {
		u := &uses[table.Self()]
		u.produce(table, all, shape, total)
		finished := u.sent == total
		for _, r := range all {
			if r == table.Self() {
				continue
			}
			sent, bytes := load(table, r, sentOff), table.Row(r)[shape.ControlBytes:]
			for at := u.seen[r]; at < sent; at++ {
				if bytes[at%ring] != pattern(r, at) {
					t.Errorf("F2: seed %d: rank %d: sent of rank %d is %d, byte %d is %#x, not %#x", seed, table.Self(), r, sent, at, bytes[at%ring], pattern(r, at))
					return true
				}
			}
			if sent != u.seen[r] {
				u.seen[r] = sent
				store(table, seenOff+8*int(r), sent)
				table.PushLine(all, seenOff)
			}
			finished = finished && sent == total && load(table, r, seenOff+8*int(table.Self())) == total
		}
		return finished
	})
}

// slowReader pushes a whole ring and very many values of a word to a peer that does not look. What
// waits must be bounded by the row, whatever was pushed.
func slowReader(t *testing.T, open Open) {
	const ring, chunk = mib, 4096
	const heapLimit = 6 * mib // a queue of the pushed lines would be more than twice that
	shape := shapeOf(3, ring)
	tables := opened(t, open, 2, shape)
	writer, reader, to := tables[0], tables[1], []order.Rank{1}
	own := writer.Row(0)
	before := heapInUse()
	pushes := 200000
	for k := range pushes {
		if at := shape.ControlBytes + k*chunk; at < shape.RowBytes {
			for i := range chunk {
				own[at+i] = pattern(0, uint64(at+i))
			}
			writer.Push(to, at, chunk)
		}
		store(writer, fabric.LineBytes, uint64(k+1))
		writer.PushLine(to, fabric.LineBytes)
		if k%8 == 0 || k < ring/chunk { // the socket is full most of the time, and says so at the price of a system call
			writer.Flush()
		}
	}
	if grown := heapInUse() - before; grown > heapLimit {
		t.Errorf("F2: %d pushes that were not taken grew the heap by %d bytes", pushes, grown)
	}
	for deadline := time.Now().Add(patience); load(reader, 0, fabric.LineBytes) != uint64(pushes); runtime.Gosched() {
		writer.Poll()
		writer.Flush()
		reader.Poll()
		if time.Now().After(deadline) {
			t.Fatalf("the reader saw %d of %d pushes", load(reader, 0, fabric.LineBytes), pushes)
		}
	}
	if got := reader.Row(0)[shape.ControlBytes:]; !slices.Equal(got, own[shape.ControlBytes:]) {
		t.Error("F2: the last word is here, the bytes that were pushed before it are not")
	}
	if f := append(writer.Failures(), reader.Failures()...); len(f) > 0 {
		t.Errorf("failures: %v", f)
	}
}

func heapInUse() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// produce sends what has space, up to a total.
func (u *ringUse) produce(table *fabric.Table, all []order.Rank, shape fabric.RowShape, total uint64) {
	least := u.sent
	for _, r := range all {
		if r != table.Self() {
			least = min(least, load(table, r, seenOff+8*int(table.Self())))
		}
	}
	n := min(uint64(u.random.IntN(ring/2)+1), ring-(u.sent-least), total-u.sent)
	if n == 0 {
		return
	}
	own := table.Row(table.Self())[shape.ControlBytes:]
	for at := u.sent; at < u.sent+n; at++ {
		own[at%ring] = pattern(table.Self(), at)
	}
	start, k := u.sent%ring, min(n, ring-u.sent%ring)
	table.Push(all, shape.ControlBytes+int(start), int(k))
	if n > k {
		table.Push(all, shape.ControlBytes, int(n-k))
	}
	u.sent += n
	store(table, sentOff, u.sent)
	table.PushLine(all, sentOff)
}

// rowsConverge writes each part of each row once, pushes the parts in a random order and in random
// company, and compares.
func rowsConverge(t *testing.T, open Open) {
	const lines, bytes, part = 16, 96 << 10, 1 << 10
	shape := shapeOf(lines, bytes)
	tables := opened(t, open, 4, shape)
	seed := rand.Uint64()
	all := everybody(tables)
	jobs := make([][]pushed, len(tables))
	random := make([]*rand.Rand, len(tables))
	for r := range tables {
		random[r] = rand.New(rand.NewPCG(seed, uint64(r)))
		jobs[r] = allOf(shape, lines, part, random[r])
	}
	together(t, tables, func(table *fabric.Table) bool {
		self := table.Self()
		for range min(len(jobs[self]), random[self].IntN(100)) {
			jobs[self][0].push(table, all, random[self])
			jobs[self] = jobs[self][1:]
		}
		if len(jobs[self]) == 0 && load(table, self, fabric.LineBytes) == 0 {
			store(table, fabric.LineBytes, 1)
			table.PushLine(all, fabric.LineBytes)
		}
		return !slices.ContainsFunc(all, func(r order.Rank) bool { return load(table, r, fabric.LineBytes) == 0 })
	})
	for _, table := range tables {
		for _, r := range all {
			if have, want := table.Row(r)[fabric.LineBytes:], tables[r].Row(r)[fabric.LineBytes:]; !slices.Equal(have, want) {
				t.Errorf("seed %d: the row of rank %d at rank %d differs", seed, r, table.Self())
			}
		}
	}
}

// allOf is all of a row, in pieces and in random order.
func allOf(shape fabric.RowShape, lines, part int, random *rand.Rand) (jobs []pushed) {
	for l := 2; l < lines; l++ {
		jobs = append(jobs, pushed{l * fabric.LineBytes, 0})
	}
	for off := shape.ControlBytes; off < shape.RowBytes; off += part {
		cut := 1 + random.IntN(part-1)
		jobs = append(jobs, pushed{off, cut}, pushed{off + cut, part - cut})
	}
	random.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	return jobs
}

// pushed is a part of a row that is written and pushed at once: a line, if n is 0.
type pushed struct{ off, n int }

func (j pushed) push(table *fabric.Table, all []order.Rank, random *rand.Rand) {
	if j.n == 0 {
		for w := 0; w < fabric.LineBytes; w += 8 {
			store(table, j.off+w, random.Uint64())
		}
		table.PushLine(all, j.off)
		return
	}
	own := table.Row(table.Self())
	for i := range j.n {
		own[j.off+i] = byte(random.Uint32())
	}
	table.Push(all, j.off, j.n)
}

// frozenStays has an owner write on while a peer has frozen its row.
func frozenStays(t *testing.T, open Open) {
	shape := shapeOf(2, 64<<10)
	tables := opened(t, open, 3, shape)
	owner, freezer, other := tables[0], tables[1], tables[2]
	all := everybody(tables)
	written := uint64(0)
	write := func() {
		written++
		owner.Row(0)[shape.ControlBytes+int(written)] = byte(written) | 1 // each byte once
		owner.Push(all, shape.ControlBytes+int(written), 1)
		store(owner, fabric.LineBytes, written)
		owner.PushLine(all, fabric.LineBytes)
		owner.Poll()
		owner.Flush()
	}
	for written < 100 {
		write()
	}
	until(t, freezer, "some of the owner's writes", func() bool { return load(freezer, 0, fabric.LineBytes) > 0 })
	freezer.Freeze(0)
	frozen := slices.Clone(freezer.Row(0))
	for written < 2000 {
		write()
		freezer.PushLine(all, fabric.LineBytes) // passes over the frozen rank and self
		freezer.Poll()
		freezer.Flush()
		other.Poll()
	}
	if !slices.Equal(freezer.Row(0), frozen) {
		t.Error("F4: the replica changed after Freeze")
	}
	if !freezer.Frozen(0) || freezer.Frozen(2) {
		t.Errorf("frozen: rank 0 %v, rank 2 %v", freezer.Frozen(0), freezer.Frozen(2))
	}
	if f := freezer.Failures(); len(f) != 0 {
		t.Errorf("F5: the node that freezes sees a failure: %v", f)
	}
	until(t, other, "the owner's last write at a node that froze nothing", func() bool {
		owner.Poll()
		owner.Flush()
		return load(other, 0, fabric.LineBytes) == written
	})
}

// failureOnce closes one of three nodes. The others hear of it once, keep what it said last, and go
// on with each other.
func failureOnce(t *testing.T, open Open) {
	tables := open(t, 3, shapeOf(2, 4096))
	linked(t, tables)
	gone, rest := tables[2], tables[:2]
	all := everybody(tables)
	const said = 4711
	store(gone, fabric.LineBytes, said)
	gone.PushLine(all, fabric.LineBytes)
	gone.Flush()
	if err := gone.Close(); err != nil {
		t.Error(err)
	}
	for _, table := range rest {
		defer table.Close()
		failures := failuresOf(t, table, all)
		if len(failures) != 1 || failures[0].Rank != 2 || !errors.Is(failures[0].Err, fabric.ErrPeerGone) {
			t.Errorf("F5: rank %d saw %v", table.Self(), failures)
		}
		if v := load(table, 2, fabric.LineBytes); v != said {
			t.Errorf("rank %d has %d, not what the peer said last", table.Self(), v)
		}
	}
	for _, table := range rest {
		store(table, fabric.LineBytes, 1)
		table.PushLine(all, fabric.LineBytes)
	}
	together(t, rest, func(table *fabric.Table) bool { return load(table, 1-table.Self(), fabric.LineBytes) == 1 })
}

// failuresOf waits for the failure of rank 2, and for others that must not come.
func failuresOf(t *testing.T, table *fabric.Table, all []order.Rank) (failures []fabric.Failure) {
	until(t, table, "the failure", func() bool {
		failures = append(failures, table.Failures()...)
		return len(failures) > 0
	})
	for range 300 {
		table.PushLine(all, fabric.LineBytes)
		table.Push(all, 2*fabric.LineBytes, 64)
		table.Poll()
		table.Flush()
		table.Fail(2, errors.New("again"))
		failures = append(failures, table.Failures()...)
	}
	return failures
}

// nothingLeft opens and closes worlds, and counts descriptors and goroutines.
func nothingLeft(t *testing.T, open Open) {
	world := func(name string) {
		t.Run(name, func(t *testing.T) {
			tables := opened(t, open, 3, shapeOf(2, 64<<10))
			all := everybody(tables)
			tables[1].Freeze(2)
			for _, table := range tables {
				table.Push(all, 2*fabric.LineBytes, 64<<10)
				table.PushLine(all, fabric.LineBytes)
				table.Flush()
				table.Poll()
			}
		})
	}
	world("first") // what is made once and kept is made here
	before := Resources()
	for range 5 {
		world("again")
	}
	Settle(t, before)
}
