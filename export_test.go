package squall

import (
	"errors"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/trust"
)

// Identity is the key pair of this process: what a hostile member has of its own.
func (g *Group) Identity() *trust.Identity { return g.identity }

// Spoil has f do with the table of the view, and so with the own row, what it likes. Afterwards the
// member halts.
func (g *Group) Spoil(f func(*fabric.Table)) {
	g.member.Call(func() {
		f(g.member.Table())
		g.member.Halt(errors.New("its row is spoiled"))
	})
}
