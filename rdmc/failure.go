package rdmc

import (
	"fmt"

	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/order"
)

// Failure is the reason for which a group failed: the same at all members that outlive it, unless
// several things failed at a time. It is an ErrFailed, and with FailureDiscarded an ErrDiscarded
// too.
type Failure struct {
	Node order.NodeID // the member at fault, or the member that reported the failure
	Code FailureCode
	Text string
}

// ErrFailed is the error of a group that failed; errors.As gives the *Failure.
var ErrFailed = relay.ErrFailed

// ErrDiscarded is the error of a group that a member left with Discard.
var ErrDiscarded = relay.ErrDiscarded

// FailureCode sorts failures.
type FailureCode uint8

// Why a group fails.
const (
	// FailureGone is a node whose connection broke.
	FailureGone = FailureCode(relay.Gone)
	// FailureSilent is a node that said nothing for too long while something was in progress.
	FailureSilent = FailureCode(relay.Silent)
	// FailureCorrupt is a block with a wrong checksum.
	FailureCorrupt = FailureCode(relay.Corrupt)
	// FailureViolation is a node that broke the protocol, or that has another configuration.
	FailureViolation = FailureCode(relay.Violation)
	// FailureNoMemory is a node that had, or gave, no memory for a message.
	FailureNoMemory = FailureCode(relay.NoRoom)
	// FailureDiscarded is a node that left without waiting for the others.
	FailureDiscarded = FailureCode(relay.Discarded)
)

func (c FailureCode) String() string { return relay.Code(c).String() }

func (f *Failure) Error() string { return fmt.Sprintf("rdmc: node %d: %s", f.Node, f.Text) }

// Is compares with ErrFailed and ErrDiscarded.
func (f *Failure) Is(target error) bool {
	return target == ErrFailed || target == ErrDiscarded && f.Code == FailureDiscarded
}

// public returns the error that users see in place of one of package relay.
func public(err error) error {
	if f, ok := err.(*relay.Failure); ok {
		return &Failure{Node: f.Node, Code: FailureCode(f.Code), Text: f.Text}
	}
	return err
}
