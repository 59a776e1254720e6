package member

import "math"

// Keeps reports whether histories refer to messages in the ring.
func (p *backend) Keeps() bool { return p.keeper.Kept() != math.MaxUint64 }

// Keeps is that of the member.
func (m *Member) Keeps() bool { return m.b.Keeps() }
