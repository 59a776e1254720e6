package squall

import (
	"errors"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/descriptors"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// Errors, to be tested with errors.Is.
var (
	// ErrClosed is returned after Close.
	ErrClosed = member.ErrClosed
	// ErrWindowFull is returned by TrySend and TryClaim when the ring has no space now.
	ErrWindowFull = member.ErrWindowFull
	// ErrTooLarge is returned for a message that is larger than the subgroup takes;
	// Subgroup.MaxMessageBytes returns the limit.
	ErrTooLarge = member.ErrTooLarge
	// ErrNotSender is returned where this process is no sender of the subgroup, or no member of it.
	ErrNotSender = member.ErrNotSender
	// ErrNoSubgroup is returned by Group.Subgroup for a name that was not declared.
	ErrNoSubgroup = errors.New("there is no subgroup")
	// ErrInCallback is returned by a call that would wait for the goroutine that makes it: in a
	// callback that runs on the group's loop, by Send and Claim without space, sending a large
	// message, Future.Wait, Leave, Close and all other calls that wait; in any callback, by Close.
	// TrySend, TryClaim, Commit and all other calls that do not wait work there.
	ErrInCallback = errs.ErrInCallback
	// ErrNoStateHash is returned by SubgroupConfig.StateHash before the first hash was taken.
	ErrNoStateHash = errors.New("no hash of the state has been taken")
	// ErrClaimDone is returned when a claim is committed or aborted a second time.
	ErrClaimDone = smc.ErrClaimDone
	// ErrNotProvisioned is returned where a subgroup has too few members now for this process to
	// send to it.
	ErrNotProvisioned = member.ErrNotProvisioned
	// ErrPartitioned halts a group at members that can reach too few of the others; the others may
	// go on.
	ErrPartitioned = viewchange.ErrPartitioned
	// ErrEvicted halts a group at a member that the others took for failed.
	ErrEvicted = viewchange.ErrEvicted
	// ErrStateLost halts a group at a member that entered a subgroup when no member that has the
	// subgroup's state is left.
	ErrStateLost = shard.ErrStateLost
	// ErrSilent is the reason for which a member is suspected that seems to be alive while its loop
	// does not turn.
	ErrSilent = member.ErrSilent
	// ErrTooFewDescriptors is returned by Open when the process's limit leaves too few file
	// descriptors for a group of that size.
	ErrTooFewDescriptors = descriptors.ErrTooFew
	// ErrRefused is returned by Open when the group does not admit this process; the text says why.
	ErrRefused = join.ErrRefused
	// ErrOtherHistory is returned by Open when this process's directory has the history of one
	// group, and the process met another group of the same name and no member of its own. Both
	// groups keep their data.
	ErrOtherHistory = views.ErrOtherHistory
	// ErrProtocolVersion is returned by Open when the other side speaks another version of the
	// protocol.
	ErrProtocolVersion = port.ErrProtocolVersion
	// ErrNoSharedMemory is returned by Open with FabricSHM when a member is on another host.
	ErrNoSharedMemory = auto.ErrNoSharedMemory
	// ErrViolation is the reason for which a member is suspected that did what the protocol
	// forbids.
	ErrViolation = fabric.ErrViolation
)
