package multicast_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// shared is a link whose replica is the peer's row itself, until it is frozen: then it is a copy.
type shared struct {
	row     []byte
	between func(word int) // nil, or called before each word that a freeze copies
}

func (l *shared) Replica() []byte      { return l.row }
func (l *shared) Push(int, int)        {}
func (l *shared) PushLine(int)         {}
func (l *shared) Poll() (bool, error)  { return false, nil }
func (l *shared) Flush() (bool, error) { return false, nil }
func (l *shared) Close() error         { return nil }
func (l *shared) Direct() bool         { return true }
func (l *shared) Name() string         { return "shared" }

// Freeze copies the row as a link of shared memory does: word by word, from the start.
func (l *shared) Freeze() []byte {
	frozen := make([]byte, len(l.row))
	for off := 0; off < len(l.row); off += 8 {
		if l.between != nil {
			l.between(off / 8)
		}
		*fabric.Word(frozen, off) = *fabric.Word(l.row, off)
	}
	return frozen
}

// twoShared are two members on shared rows, and the rows.
func twoShared(t *testing.T) (nodes []*node, rows [][]byte) {
	t.Helper()
	return twoSharedOf(t, views.Ordered)
}

func twoSharedOf(t *testing.T, mode views.Mode) (nodes []*node, rows [][]byte) {
	t.Helper()
	nodes, rows, _ = twoLinked(t, mode)
	return nodes, rows
}

// twoLinked also returns the link of each to the other one.
func twoLinked(t *testing.T, mode views.Mode) (nodes []*node, rows [][]byte, ways []*shared) {
	t.Helper()
	both := []order.Rank{0, 1}
	sg := views.Subgroup{Name: "a", Mode: mode, RingBytes: 4096, Window: 8, Members: both, Senders: both}
	v := &views.View{ID: 1, Members: []views.Member{{ID: 1}, {ID: 2}}, Subgroups: []views.Subgroup{sg}}
	layout := sst.NewLayout(2)
	columns := multicast.Declare(layout, sg)
	for r := range both {
		mem, _, err := fabric.NewMemory(layout.Shape(order.Rank(r)).RowBytes)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, mem)
	}
	for r := range both {
		links := make([]fabric.Link, 2)
		ways = append(ways, &shared{row: rows[1-r]})
		links[1-r] = ways[r]
		table, err := sst.NewTable(layout, fabric.NewTable(order.Rank(r), rows[r], links, nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		one := &node{table: table}
		one.Subgroup = multicast.New(multicast.Config{
			View: v, Subgroup: sg, Columns: columns, Table: table, Receiver: one, Clock: func() order.Time { return 1 },
		})
		table.OnMove(one.Rebind)
		nodes = append(nodes, one)
	}
	return nodes, rows, ways
}

// A peer breaks the protocol in the middle of a step; its row is frozen there and then, and from
// that moment on nothing that it writes is read, nor reported a second time. What it sent before is
// delivered in the end.
func TestAFailedRowIsNotReadAnyMore(t *testing.T) {
	const line = fabric.LineBytes
	for what, violate := range map[string]func(row []byte){
		"skipped":   func(row []byte) { *fabric.Word(row, line) = 1 << 60 },
		"sent":      func(row []byte) { *fabric.Word(row, line+8) = 0 },
		"delivered": func(row []byte) { *fabric.Word(row, line+40) = 1 << 40 },
		"received":  func(row []byte) { *fabric.Word(row, line+48) = 0 },
		"record": func(row []byte) {
			*fabric.Word(row, 2*line+16) = 1 << 30 // a length, of index 1
			*fabric.Word(row, line+16) = 32        // position
			*fabric.Word(row, line+8) = 2          // sent
			*fabric.Word(row, line+48) = 4         // received
		},
	} {
		t.Run(what, func(t *testing.T) {
			nodes, rows := twoShared(t)
			g := &group{t: t, nodes: nodes}
			g.send(0, "a")
			g.send(1, "b")
			g.settle()
			if what == "record" {
				g.send(0, "c")
			}
			violate(rows[1])
			n := nodes[0]
			for range 3 {
				n.cycle()
			}
			if f := n.table.Failures(); len(f) != 1 || !strings.Contains(f[0].Err.Error(), "protocol violation") {
				t.Fatalf("reported: %v", f)
			}
			for i := range rows[1] {
				rows[1][i] = 0xff
			}
			for range 5 {
				n.cycle()
			}
			n.Wedge()
			trim := slices.Clone(n.Reach())
			if err := n.Trim(trim); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				n.cycle()
			}
			want := "1:a 2:b"
			if what == "record" {
				want += " 1:c"
			}
			if got := strings.Join(n.log, " "); got != want || !n.Finished() {
				t.Errorf("delivered %s, finished: %v; want %s", got, n.Finished(), want)
			}
			if f := n.table.Failures(); len(f) != 0 {
				t.Errorf("reported again: %v", f)
			}
		})
	}
}

// S3: the index of a record is that of a turn which was delivered as a null. Its sender fails, and
// not only when the ring is full of what nobody takes.
func TestARecordWhoseTurnWasANullFailsItsSender(t *testing.T) {
	const line = fabric.LineBytes
	nodes, rows := twoShared(t)
	g, n := &group{t: t, nodes: nodes}, nodes[0]
	g.send(1, "b")
	g.settle()
	*fabric.Word(rows[1], line+8) = 3  // sent
	*fabric.Word(rows[1], line+48) = 6 // received
	for range 5 {
		n.cycle()
	}
	if f := n.table.Failures(); len(f) != 0 || n.Delivered() < 6 {
		t.Fatalf("%d nulls and messages are delivered: %v", n.Delivered(), f)
	}
	*fabric.Word(rows[1], 2*line+16) = 1 // a message of a byte, without a gap: of index 1
	*fabric.Word(rows[1], line+16) = 32  // position
	*fabric.Word(rows[1], line+8) = 4
	*fabric.Word(rows[1], line+48) = 8
	for range 5 {
		n.cycle()
	}
	if f := n.table.Failures(); len(f) != 1 || !strings.Contains(fmt.Sprint(f[0].Err), "S3") {
		t.Errorf("failures %v, delivered %q", f, n.log)
	}
}
