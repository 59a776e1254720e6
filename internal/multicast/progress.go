package multicast

import (
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Progress is how far a member is in the order of a subgroup, as its row shows it here. In
// unordered mode Received and Delivered are zero: there is no order. Persisted is zero in every
// mode but persistent.
type Progress struct {
	Sent                           order.Index // indexes that the member published: messages and nulls
	Received, Delivered, Persisted order.Seq   // lengths of prefixes of the order
}

// Progress returns the progress of a member, by its place among the subgroup's members. Loop.
func (s *Subgroup) Progress(member int) Progress {
	line := s.lines[member]
	p := Progress{
		Sent:     wordSent.Load(line),
		Received: wordReceived.Load(line), Delivered: wordDelivered.Load(line),
	}
	if s.sg.Mode == views.Persistent {
		p.Persisted = wordPersisted.Load(line)
	}
	return p
}
