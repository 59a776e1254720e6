package sst_test

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/trust"
)

// done is the counter of the example: the word of its line, and the type of what it counts.
const done sst.Counter[order.Index] = 0

// Three processes share a table. Each process counts in its own row and pushes the row to the
// others. The least count over the rows is what every process has done. As counters only grow, that
// holds forever, whatever else is in flight: no process asks another one, and none waits for an
// answer. This is how a group finds out that a message is stable.
//
// Here the three are in one process; what each of them says to the others is a fabric.Peer.
func Example() {
	all := []order.Rank{0, 1, 2}
	layout := sst.NewLayout(len(all))
	progress := layout.Lines("progress", "done") // where each row has the line, by rank
	processes := []*process{start(1), start(2), start(3)}
	var peers []fabric.Peer // by rank, the same list at all of them
	for r, p := range processes {
		p.peer.Shape = layout.Shape(all[r])
		peers = append(peers, p.peer)
	}
	for r, p := range processes {
		defer p.stop()
		p.open(all[r], peers, layout)
		done.Store(p.table.Line(all[r], progress[r]), 10+order.Index(r))
	}
	for r, p := range processes {
		p.connected()
		p.table.PushLine(all, progress[r])
		p.table.Flush()
	}
	for r, p := range processes {
		for done.Min(p.table, progress) == 0 {
			p.table.Poll()
		}
		fmt.Printf("process %d: every process has done %d\n", r, done.Min(p.table, progress))
	}
	// Output:
	// process 0: every process has done 10
	// process 1: every process has done 10
	// process 2: every process has done 10
}

// process is one of the processes that share the table.
type process struct {
	identity *trust.Identity
	port     *port.Port
	node     *auto.Node
	parker   *fabric.Parker
	peer     fabric.Peer
	table    *sst.Table
}

// start listens, and makes what the others have to know of this process.
func start(id order.NodeID) *process {
	p := &process{identity: trust.NewIdentity(), parker: must(fabric.NewParker())}
	p.port = must(port.Open(context.Background(), port.Config{Addr: "127.0.0.1:0"}))
	p.node = must(auto.Open(context.Background(), auto.Config{Port: p.port}))
	p.peer = fabric.Peer{ID: id, Addr: p.port.Addr(), Host: p.node.Host(), SHM: p.node.SHM(), PublicKey: p.identity.PublicKey()}
	return p
}

// open lays out the table. Its links come up in the background: shared memory on one host, TCP
// between hosts.
func (p *process) open(self order.Rank, peers []fabric.Peer, layout *sst.Layout) {
	scope := trust.Scope{Cluster: "counters", View: 1, Key: "a secret of the three"}
	memory := must(p.node.Open(fabric.Spec{Scope: scope, Identity: p.identity, Self: self, Peers: peers, Parker: p.parker}))
	p.table = must(sst.NewTable(layout, memory))
}

// connected waits for the links.
func (p *process) connected() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must(0, p.table.Await(ctx))
}

func (p *process) stop() {
	p.table.Close()
	p.node.Close()
	p.port.Close()
	p.parker.Close()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
