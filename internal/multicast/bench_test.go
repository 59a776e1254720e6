package multicast_test

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// quiet takes everything.
type quiet struct{ delivered int }

func (q *quiet) Deliver(run []multicast.Message) int { q.delivered += len(run); return len(run) }
func (q *quiet) MaxRun() int                         { return 0 }

// BenchmarkCycle is one cycle of every member's loop, in each of which so many messages are sent by
// each.
func BenchmarkCycle(b *testing.B) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered} {
		for _, batch := range []int{0, 1, 4} {
			b.Run(fmt.Sprintf("mode=%v/batch=%d", mode, batch), func(b *testing.B) {
				nodes, apps := twoQuiet(b, mode)
				for b.Loop() {
					for _, n := range nodes {
						for range batch {
							if c, ok := n.Sender.Claim(100); ok {
								n.Sender.Commit(c)
							}
						}
						n.Step()
					}
				}
				b.ReportMetric(float64(apps[0].delivered)/float64(b.N), "msgs/op")
			})
		}
	}
}

// twoQuiet are two members on shared rows.
func twoQuiet(b *testing.B, mode views.Mode) (nodes []*multicast.Subgroup, apps []*quiet) {
	both := []order.Rank{0, 1}
	sg := views.Subgroup{Name: "a", RingBytes: 1 << 16, Window: 64, Members: both, Senders: both, Mode: mode}
	v := &views.View{ID: 1, Members: []views.Member{{ID: 1}, {ID: 2}}, Subgroups: []views.Subgroup{sg}}
	layout := sst.NewLayout(2)
	columns := multicast.Declare(layout, sg)
	var rows [][]byte
	for r := range both {
		mem, _, err := fabric.NewMemory(layout.Shape(order.Rank(r)).RowBytes)
		if err != nil {
			b.Fatal(err)
		}
		rows = append(rows, mem)
	}
	for r := range both {
		links := make([]fabric.Link, 2)
		links[1-r] = &shared{row: rows[1-r]}
		table, err := sst.NewTable(layout, fabric.NewTable(order.Rank(r), rows[r], links, nil, nil))
		if err != nil {
			b.Fatal(err)
		}
		app := &quiet{}
		nodes = append(nodes, multicast.New(multicast.Config{View: v, Subgroup: sg, Columns: columns, Table: table, Receiver: app}))
		apps = append(apps, app)
	}
	return nodes, apps
}
