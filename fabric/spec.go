package fabric

import (
	"github.com/squall-go/squall/order"
)

// Peer is what a fabric needs to know of a member to bring rows to it.
type Peer struct {
	ID    order.NodeID
	Addr  string // host:port of its port
	Host  string // equal for processes that can share memory; empty if it offers none
	Shm   string // name of its abstract unix socket
	Shape RowShape
}

// Spec is one view's table as a fabric sees it.
type Spec struct {
	Cluster string
	View    order.ViewID
	Key     string // known to the members of the view only; a connection for its rows must show it
	Self    order.Rank
	Peers   []Peer // by rank, self included
	Parker  *Parker
}

// Node is a process's end of a fabric.
type Node interface {
	// Open lays out a table at once; its links come up one by one, in the background, until the table is closed. A peer that
	// cannot be reached for good is a Failure; one that is not there yet is waited for.
	Open(spec Spec) (*Table, error)
	// Close stops accepting connections for further links.
	Close() error
}
