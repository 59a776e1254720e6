package relay

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/order"
)

// ErrFailed is wrapped by every Failure.
var ErrFailed = errors.New("the group of transfers failed")

// Code sorts failures.
type Code uint8

// Why a group fails.
const (
	// Gone is a node whose connection broke.
	Gone Code = iota + 1
	// Silent is a node that said nothing for too long while something was under way.
	Silent
	// Corrupt is a block with a wrong checksum.
	Corrupt
	// Violation is a node that broke the protocol, or that has another configuration.
	Violation
	// NoRoom is a node that could not, or would not, make room for a message.
	NoRoom
	// Discarded is a node that left without waiting for the others.
	Discarded
)

var codeNames = [...]string{"", "gone", "silent", "corrupt", "violation", "no space", "discarded"}

func (c Code) String() string {
	if c > 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %d", uint8(c))
}

// ErrDiscarded is what a Failure is whose Code is Discarded.
var ErrDiscarded = errors.New("the group of transfers was discarded")

// Failure is the reason for which a group failed: the same at all members that outlive it, unless
// several things failed at a time.
type Failure struct {
	Node order.NodeID // the node at fault, or the node that reported the failure
	Code Code
	Text string
}

func (f *Failure) Error() string { return fmt.Sprintf("rdmc: node %d: %s", f.Node, f.Text) }

// Is makes every Failure an ErrFailed, and a Failure of Discard an ErrDiscarded too.
func (f *Failure) Is(target error) bool {
	return target == ErrFailed || target == ErrDiscarded && f.Code == Discarded
}
