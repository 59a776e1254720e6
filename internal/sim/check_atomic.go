package sim

import (
	"bytes"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/views"
)

// atomicChecker checks G2: when an application is offered a message, every member of the subgroup has acknowledged it
// (received, in its own row, covers it) and has its bytes in its replica of the sender's row, where they are here.
type atomicChecker struct{ unconcerned }

func (atomicChecker) name() string { return "atomic" }

func (atomicChecker) offered(w *world, d *delivery) error {
	g := d.group
	if g.sg.Mode == views.Unordered {
		return nil
	}
	sender := g.sg.Senders[d.sender]
	off, ok := offsetIn(d.node().table().Row(sender), d.Data)
	if !ok { // a run that was collected before its sender's row was frozen
		off, ok = offsetIn(d.node().rows[sender], d.Data)
	}
	if !ok {
		return violated("S4", "rank %d: subgroup %q: seq %d does not lie in its sender's row", d.node().rank, g.sg.Name, d.Seq)
	}
	for k, r := range g.readers {
		line := r.node.member.Subgroup(g.index).Core().Line(k)
		if received := line[wordReceived]; received <= uint64(d.Seq) {
			return violated("G2", "rank %d: subgroup %q: seq %d is delivered, and rank %d has received %d", d.node().rank, g.sg.Name, d.Seq, r.node.rank, received)
		}
		if row := r.node.table().Row(sender); !bytes.Equal(row[off:off+len(d.Data)], d.Data) {
			return violated("G2", "rank %d: subgroup %q: seq %d is delivered, and rank %d has other bytes", d.node().rank, g.sg.Name, d.Seq, r.node.rank)
		}
	}
	return nil
}

// offsetIn is where data lies in a row; it must be a part of it. Empty data lies anywhere.
func offsetIn(row, data []byte) (off int, ok bool) {
	if len(data) == 0 {
		return 0, true
	}
	off = int(uintptr(unsafe.Pointer(&data[0])) - uintptr(unsafe.Pointer(&row[0])))
	return off, off >= fabric.LineBytes && off+len(data) <= len(row)
}
