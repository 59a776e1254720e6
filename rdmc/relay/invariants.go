package relay

import "github.com/squall-go/squall/internal/invariants"

// invariants checks what must hold between two inputs.
func (r *Relay) invariants() {
	check := invariants.Check
	check(r.base <= r.next && r.next <= r.base+Window, "R1", "messages [%d, %d) are under way", r.base, r.next)
	check(!r.told || r.touched == 0, "R5", "%d blocks are under way after the failure was told", r.touched)
	sending, reading := 0, 0
	for _, m := range r.msgs {
		if m == nil {
			continue
		}
		check(m.index >= r.base && m.index < r.base+Window, "R1", "message %d is kept, of [%d, …)", m.index, r.base)
		reading += m.reading
		if m.sending {
			sending++
		}
		came := 0
		for _, s := range m.from {
			came += s.count
		}
		check(len(m.have)-m.left <= came-m.reading, "R3", "message %d: %d blocks came, %d are missing of %d", m.index, came-m.reading, m.left, len(m.have))
	}
	check(sending <= 1, "R2", "%d blocks are being sent", sending)
	check(sending+reading == r.touched, "R5", "%d blocks sent and %d read make %d", sending, reading, r.touched)
}
