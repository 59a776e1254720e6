package sim

import (
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// taker counts what is delivered.
type taker int

func (n *taker) Deliver(run []multicast.Message) int {
	*n += taker(len(run))
	return len(run)
}

func (n *taker) MaxRun() int { return 0 }

// hidden plays a row that is frozen while its owner, which sends and skips rounds, goes on. It
// returns how many of the messages that are here by the counters of the frozen row are not
// delivered.
func hidden(t *testing.T, seed uint64) int {
	t.Helper()
	sg := views.Subgroup{Name: "a", Mode: views.Ordered, RingBytes: 4096, Window: 8, Members: []order.Rank{0, 1}, Senders: []order.Rank{1}}
	v := &views.View{ID: 1, Members: []views.Member{{ID: 1}, {ID: 2}}, Subgroups: []views.Subgroup{sg}}
	layout := sst.NewLayout(2)
	columns := multicast.Declare(layout, sg)
	net := simnet.New(seed, simnet.Options{Kind: func(order.NodeID, order.NodeID) simnet.Kind { return simnet.Seeping }, StoreOrder: storeOrder})
	defer net.Close()
	parts, tables, taken := [2]*multicast.Subgroup{}, [2]*sst.Table{}, taker(0)
	for r, memory := range net.Open([]simnet.Endpoint{{ID: 1, Shape: layout.Shape(0)}, {ID: 2, Shape: layout.Shape(1)}}) {
		table, err := sst.NewTable(layout, memory)
		if err != nil {
			t.Fatal(err)
		}
		tables[r] = table
		parts[r] = multicast.New(multicast.Config{View: v, Subgroup: sg, Columns: columns, Table: table, Receiver: []multicast.Receiver{&taken, new(taker)}[r]})
		table.OnMove(parts[r].Rebind)
	}
	const skips, messages = 3, 4
	for range messages {
		if _, ok := parts[1].Sender.Send(make([]byte, 8), smc.Small); !ok {
			t.Fatal("no space")
		}
		parts[1].Exchange()
		parts[1].Skip(skips)
		parts[1].Exchange()
	}
	tables[0].Freeze(1)
	parts[0].Exchange()
	parts[0].Wedge()
	reach := parts[0].Reach()
	if err := parts[0].Trim(reach); err != nil {
		t.Fatal(err)
	}
	for range 2 * messages {
		parts[0].Deliver()
	}
	return int(reach[0]+skips)/(1+skips) - int(taken)
}

// N5: what the simulated network makes of a row that is frozen hides no message.
func TestARowThatIsFrozenWhileItSeepsHidesNoMessage(t *testing.T) {
	for seed := range uint64(300) {
		if n := hidden(t, seed); n != 0 {
			t.Errorf("N5: seed %d: %d messages count as nulls", seed, n)
		}
	}
}

// D4: a row may be torn before any of its words.
func TestAFrozenRowIsTornAnywhere(t *testing.T) {
	shape := fabric.RowShape{ControlBytes: 4 * fabric.LineBytes, RowBytes: 4 * fabric.LineBytes}
	torn := map[int]bool{}
	for seed := range uint64(2000) {
		net := simnet.New(seed, simnet.Options{Kind: func(order.NodeID, order.NodeID) simnet.Kind { return simnet.Seeping }})
		tables := net.Open([]simnet.Endpoint{{ID: 1, Shape: shape}, {ID: 2, Shape: shape}})
		// a copy that is not torn has a word only with all words after it
		for off := shape.ControlBytes - 8; off >= 0; off -= 8 {
			*fabric.Word(tables[1].Row(1), off) = 1
			tables[1].PushLine([]order.Rank{0}, off/fabric.LineBytes*fabric.LineBytes)
		}
		tables[0].Freeze(1)
		for off := 8; off < shape.ControlBytes; off += 8 {
			if *fabric.Word(tables[0].Row(1), off-8) == 0 && *fabric.Word(tables[0].Row(1), off) != 0 {
				torn[off] = true
			}
		}
		net.Close()
	}
	if len(torn) != shape.ControlBytes/8-1 {
		t.Errorf("rows were torn before %d words of %d", len(torn), shape.ControlBytes/8-1)
	}
}
