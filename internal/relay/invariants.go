package relay

import (
	"slices"

	"github.com/squall-go/squall/internal/invariants"
)

// invariants checks what must hold between two inputs.
func (r *Relay) invariants() {
	check := invariants.Check
	check(r.base <= r.next && r.next <= r.base+Window, "R1", "messages [%d, %d) are in flight", r.base, r.next)
	check(!r.told || r.touched == 0, "R5", "%d blocks are in flight after the failure was reported", r.touched)
	for _, m := range r.root.viewed {
		check(!m.told && slices.Contains(m.shared.viewers, true), "R6", "message %d is kept for the nodes that look at it", m.index)
	}
	sending, reading, fetching := 0, 0, 0
	for _, m := range r.msgs {
		if m == nil {
			continue
		}
		check(m.index >= r.base && m.index < r.base+Window, "R1", "message %d is kept, of [%d, …)", m.index, r.base)
		reading += m.reading
		if m.sending {
			sending++
		}
		if s := m.shared; s != nil {
			check(s.told <= m.filled && s.fetched <= m.filled && m.filled <= m.size, "R6", "message %d: %d told, %d fetched of %d", m.index, s.told, s.fetched, m.filled)
			if s.fetching {
				fetching++
			}
		}
		came := 0
		for _, s := range m.from {
			came += s.count
		}
		check(len(m.have)-m.left <= came-m.reading, "R3", "message %d: %d blocks came, %d are missing of %d", m.index, came-m.reading, m.left, len(m.have))
	}
	check(sending <= 1, "R2", "%d blocks are being sent", sending)
	check(sending+reading+fetching == r.touched, "R5", "%d blocks sent, %d read and %d fetched make %d", sending, reading, fetching, r.touched)
}
