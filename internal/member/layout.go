package member

import (
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// Layout is the table layout of a view, the same at every member.
type Layout struct {
	*sst.Layout
	line   []int // of the member line, by rank
	change viewchange.Columns
	subs   []multicast.Columns // by subgroup
	rounds viewchange.RoundColumns
}

// NewLayout lays a view out: first the member line of every row, then what view changes use, then
// each subgroup in the rows of its members, then the confirmation rounds.
func NewLayout(v *views.View) (*Layout, error) {
	l := &Layout{Layout: sst.NewLayout(len(v.Members))}
	l.line = l.Lines("member", memberWords...)
	l.change = viewchange.Declare(l.Layout, v)
	for _, sg := range v.Subgroups {
		l.subs = append(l.subs, multicast.Declare(l.Layout, sg))
	}
	l.rounds = viewchange.DeclareRounds(l.Layout, v)
	return l, l.Check()
}
