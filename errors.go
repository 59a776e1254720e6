package squall

import (
	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/smc"
)

// Errors, to be tested with errors.Is.
var (
	// ErrClosed is returned after Close.
	ErrClosed = member.ErrClosed
	// ErrWindowFull is returned by TrySend and TryClaim when the ring has no room now.
	ErrWindowFull = member.ErrWindowFull
	// ErrTooLarge is returned for a message that the subgroup's ring does not take; MaxMessage tells the limit.
	ErrTooLarge = member.ErrTooLarge
	// ErrNotSender is returned where this member does not send, or is no member, in the subgroup.
	ErrNotSender = member.ErrNotSender
	// ErrClaimDone is returned when a claim is committed or aborted a second time.
	ErrClaimDone = smc.ErrClaimDone
	// ErrMemberFailed halts a group: a member's connection broke, or it was silent for FailAfter.
	ErrMemberFailed = member.ErrMemberFailed
	// ErrMemberLeft halts a group: a member closed it.
	ErrMemberLeft = member.ErrMemberLeft
	// ErrSilent is why a member failed: it lives, or seems to, but its loop does not turn.
	ErrSilent = member.ErrSilent
	// ErrRefused is returned by Open when the group does not take this process; the text says why.
	ErrRefused = join.ErrRefused
	// ErrAlreadyFormed is why a process is refused that comes after the group has formed.
	ErrAlreadyFormed = join.ErrAlreadyFormed
	// ErrProtocolVersion is returned by Open when the other side speaks another version.
	ErrProtocolVersion = port.ErrProtocolVersion
	// ErrNoSharedMemory is returned by Open with Fabric SHM when a member is on another host.
	ErrNoSharedMemory = auto.ErrNoSharedMemory
	// ErrViolation is why a member failed that did what the protocol forbids.
	ErrViolation = fabric.ErrViolation
)
