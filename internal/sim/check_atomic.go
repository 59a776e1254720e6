package sim

import (
	"bytes"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// atomicChecker checks G2. While a view goes on: when an application is offered a message, every
// member of the subgroup has acknowledged it (received, in its own row, covers it) and has its
// bytes in its replica of the sender's row, where they are here; of a large one, its body. When it
// ends: a message that any member was given, even a member that is gone since, is given to every
// member that goes on, in the old view, unless the member left the shard and its application sees
// only what is on every disk: then it is given nothing more of that view.
type atomicChecker struct{ unconcerned }

func (atomicChecker) name() string { return "atomic" }

func (atomicChecker) offered(w *world, d *delivery) error {
	if !d.ordered() || d.ledger().spoiled() {
		return nil
	}
	r, p := d.group.record, d.proc()
	seat, sender := p.seatIn(r), d.group.sg.Senders[d.sender]
	off, ok := d.place()
	large, sum := d.Body() != nil, uint32(0)
	if large {
		sum = checksum(d.Data)
	}
	if !ok && !large {
		return violated("S4", "%v does not lie in its sender's row", d)
	}
	tail := seat.words(viewLine)[wordInstalled] != 0
	for _, rd := range d.group.readers {
		q := rd.proc.seatIn(r)
		switch {
		case rd.proc.liar, tail && r.failed(rd.proc): // no member waits for it
			continue
		case q == nil:
			return violated("G2", "%v is delivered, and node %d has not begun the view", d, rd.proc.self.ID)
		case q.closed:
			continue // it had all of it
		}
		if received := q.line(d.group.index)[wordReceived]; !tail && received <= uint64(d.Seq) {
			return violated("G2", "%v is delivered, and node %d has received %d", d, rd.proc.self.ID, received)
		}
		if large {
			if b := rd.proc.bodiesIn(r, d.group.index); b == nil || rd.proc != r.procs[sender] && !b.has(d.sender, len(d.Data), sum) {
				return violated("G2", "%v is delivered, and node %d has not its body", d, rd.proc.self.ID)
			}
			continue
		}
		if row := q.table.Row(sender); !d.reader.copies && (off+len(d.Data) > len(row) || !bytes.Equal(row[off:off+len(d.Data)], d.Data)) {
			return violated("G2", "%v is delivered, and node %d has other bytes", d, rd.proc.self.ID)
		}
	}
	return nil
}

// failed reports whether the view ends without a member because that failed.
func (r *viewRecord) failed(p *process) bool {
	for _, rank := range r.end.Removed {
		if r.procs[rank] == p {
			return true
		}
	}
	return false
}

// offsetIn is where data lies in a row; it must be a part of it. Empty data lies anywhere.
// place finds a message in its sender's row. A run may have been collected before that was frozen.
func (d *delivery) place() (off int, ok bool) {
	if d.reader.copies {
		return 0, true
	}
	r, sender := d.group.record, d.group.sg.Senders[d.sender]
	off, ok = offsetIn(d.proc().seatIn(r).table.Row(sender), d.Data)
	if from := r.procs[sender].seatIn(r); !ok && from != nil {
		off, ok = offsetIn(from.own, d.Data)
	}
	return off, ok
}

func offsetIn(row, data []byte) (off int, ok bool) {
	if len(data) == 0 {
		return 0, true
	}
	off = int(uintptr(unsafe.Pointer(&data[0])) - uintptr(unsafe.Pointer(&row[0])))
	return off, off >= fabric.LineBytes && off+len(data) <= len(row)
}

// taken finds deliveries in a view that had ended at another member with fewer messages.
func (atomicChecker) taken(w *world, d *delivery) error {
	if d.reader.left(w) {
		return violated("G2", "%v is delivered, and its member has left the shard", d)
	}
	if !d.ordered() || d.ledger().spoiled() || d.reader.at < len(d.group.order)-1 {
		return nil
	}
	for _, rd := range d.group.readers {
		if rd.closed && rd.at < len(d.group.order) && !rd.forgoesTail(w) {
			return violated("G2", "%v is delivered, and node %d went on without it", d, rd.proc.self.ID)
		}
	}
	return nil
}

// checkWhole checks that a member for which a view is over was given all that any member was given
// in it.
func checkWhole(w *world, rd *reader) error {
	if g := rd.group; rd.at < len(g.order) && !rd.forgoesTail(w) {
		return violated("G2", "node %d went on from view %d with %d messages of subgroup %q, and another member was given %d",
			rd.proc.self.ID, g.record.view.ID, rd.at, g.sg.Name, len(g.order))
	}
	return nil
}

func (atomicChecker) end(w *world) error {
	for _, p := range w.procs {
		if p.over || p.member == nil || p.told {
			continue
		}
		for _, s := range p.seats[:len(p.seats)-1] {
			for _, g := range s.record.groups {
				if rd := g.reader(p); rd != nil && g.sg.Mode != views.Unordered {
					if err := checkWhole(w, rd); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// rankIn is the rank of a process in a view.
func (r *viewRecord) rankIn(p *process) (order.Rank, bool) {
	for rank, q := range r.procs {
		if q == p {
			return order.Rank(rank), true
		}
	}
	return 0, false
}
