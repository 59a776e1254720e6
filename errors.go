package squall

import (
	"errors"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/descriptors"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// Errors, to be tested with errors.Is.
var (
	// ErrClosed is returned after Close.
	ErrClosed = member.ErrClosed
	// ErrWindowFull is returned by TrySend and TryClaim when the ring has no room now.
	ErrWindowFull = member.ErrWindowFull
	// ErrTooLarge is returned for a message that the subgroup's ring does not take; MaxMessageBytes tells the limit.
	ErrTooLarge = member.ErrTooLarge
	// ErrNotSender is returned where this member does not send, or is no member, in the subgroup.
	ErrNotSender = member.ErrNotSender
	// ErrNoSubgroup is returned by Group.Subgroup for a name that was not declared.
	ErrNoSubgroup = errors.New("there is no subgroup")
	// ErrInUpcall is returned by a call that would wait for the goroutine that makes it: Send and Claim
	// without room, sending a large message, Future.Wait, Leave, Close and all others that wait, in an upcall
	// that runs on the group's loop, and Close in any upcall. TrySend, TryClaim, Commit and whatever else does
	// not wait work there.
	ErrInUpcall = errors.New("the call would wait for the upcall that makes it")
	// ErrClaimDone is returned when a claim is committed or aborted a second time.
	ErrClaimDone = smc.ErrClaimDone
	// ErrNotProvisioned is returned where a subgroup has too few members now for this process to send to it.
	ErrNotProvisioned = member.ErrNotProvisioned
	// ErrPartitioned halts a group at members that can reach too few of the others: those may go on.
	ErrPartitioned = views.ErrPartitioned
	// ErrEvicted halts a group at a member that the others took for failed.
	ErrEvicted = views.ErrEvicted
	// ErrStateLost halts a group at a member that came into a subgroup when nobody is left who has its state.
	ErrStateLost = shard.ErrStateLost
	// ErrSilent is why a member failed: it lives, or seems to, but its loop does not turn.
	ErrSilent = member.ErrSilent
	// ErrTooFewDescriptors is returned by Open when the limit of the process leaves too few file descriptors for a group of that size.
	ErrTooFewDescriptors = descriptors.ErrTooFew
	// ErrRefused is returned by Open when the group does not take this process; the text says why.
	ErrRefused = join.ErrRefused
	// ErrOtherHistory is returned by Open when this process's directory has the history of one group, and it met another one of the same name and
	// nobody of its own. Both keep what they have.
	ErrOtherHistory = views.ErrOtherHistory
	// ErrProtocolVersion is returned by Open when the other side speaks another version.
	ErrProtocolVersion = port.ErrProtocolVersion
	// ErrNoSharedMemory is returned by Open with Fabric SHM when a member is on another host.
	ErrNoSharedMemory = auto.ErrNoSharedMemory
	// ErrViolation is why a member failed that did what the protocol forbids.
	ErrViolation = fabric.ErrViolation
)
