package courier

import (
	"github.com/squall-go/squall/rdmc"
)

// Group is one process's part in the transfers of one sender: a group of package rdmc, or what
// performs the same core elsewhere.
type Group interface {
	// Start begins to send a message.
	Start(rdmc.Outgoing) (Sending, error)
	// Discard leaves at once.
	Discard()
	// Done is closed when the callbacks have returned, and no memory is touched any more.
	Done() <-chan struct{}
}

// Sending is a message that is being sent.
type Sending interface {
	Fill(n int64)
	Abort(reason error)
}

// GroupConfig describes a group. Its own Completed takes the place of that of package rdmc: release
// is nil if the data is what Incoming gave, otherwise it has to be called when the data is not
// looked at any more.
type GroupConfig struct {
	rdmc.GroupConfig
	Completed func(in rdmc.Incoming, data []byte, release func())
}

// Over returns a Config.Open that opens groups of a node.
func Over(node *rdmc.Node) func(GroupConfig) (Group, error) {
	return func(c GroupConfig) (Group, error) {
		config := c.GroupConfig
		config.Completed = func(m rdmc.Message) {
			var release func()
			if m.InPlace {
				release = m.Release
			}
			c.Completed(m.Incoming, m.Data, release)
		}
		g, err := node.Start(config)
		if err != nil {
			return nil, err
		}
		return group{g}, nil
	}
}

// group is a Group of package rdmc.
type group struct{ *rdmc.Group }

// Start implements Group.
func (g group) Start(o rdmc.Outgoing) (Sending, error) {
	s, err := g.Group.Start(o)
	if err != nil {
		return nil, err // and no Sending, instead of one that is nil
	}
	return s, nil
}
