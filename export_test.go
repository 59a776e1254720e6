package squall

import "github.com/squall-go/squall/internal/trust"

// Identity is the key pair of this process: what a hostile member has of its own.
func (g *Group) Identity() *trust.Identity { return g.identity }
