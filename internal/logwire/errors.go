package logwire

import (
	"errors"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/persist"
)

// Errors, to be tested with errors.Is. What wraps them says where.
var (
	// ErrCorrupt says that bytes are not what the other side sent, or that it sends nonsense.
	ErrCorrupt = wire.ErrCorrupt
	// ErrNotAdmitted says that a member lets a process read nothing.
	ErrNotAdmitted = errors.New("its logs are read by processes of its group, and with TLS by holders of certificates: " +
		"to let every process that reaches it read them, set Config.OpenLogs at the member")
	// ErrOutOfOrder says that a source sends records whose versions or times do not grow.
	ErrOutOfOrder = errors.New("the source sends records out of order")
	// ErrNotAsked says that a source sends records that were not asked for.
	ErrNotAsked = errors.New("the source sends records that were not asked for")
	// ErrTooLarge says that a record is larger than this side takes.
	ErrTooLarge = errors.New("the record is too large")
	// ErrFormat says that the two sides speak different versions of this protocol.
	ErrFormat = errors.New("the other side speaks another version of the log protocol")
	// ErrBusy says that a member serves as many readers as it can.
	ErrBusy = errors.New("the member serves too many readers already")
	// ErrNoLog says that a member has no log of that name.
	ErrNoLog = errors.New("no such log")
	// ErrOtherCluster says that a member belongs to another cluster.
	ErrOtherCluster = persist.ErrOtherCluster
	// ErrOther says that the own log, of which nothing may be dropped, is not the beginning of the
	// source's.
	ErrOther = catchup.ErrOther

	errRefused = errors.New("the member refuses")
	errPartial = errors.New("the member catches up with others itself")
	errBroken  = errors.New("the connection broke")
	errNobody  = errors.New("no process answers at the address")
)

// codes are the errors that have a name on the wire, the first that fits.
var codes = []struct {
	name string
	err  error
}{
	{"busy", ErrBusy},
	{"format", ErrFormat},
	{"not admitted", ErrNotAdmitted},
	{"no log", ErrNoLog},
	{"other cluster", ErrOtherCluster},
	{"truncated", persist.ErrTruncated},
	{"not found", persist.ErrNotFound},
	{"damaged", persist.ErrDamaged},
	{"closed", persist.ErrClosed},
}

// codeOf is an error's name on the wire.
func codeOf(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "refused"
}

// remote is what another member said that is wrong. Its text has been bounded.
type remote struct {
	text string
	err  error // by its name
}

func (r remote) Error() string { return "the member says: " + r.text }
func (r remote) Unwrap() error { return r.err }

// maxTextBytes bounds text that came from elsewhere.
const maxTextBytes = 1024

func fromRemote(code, text string) error {
	r := remote{wire.Clip(text, maxTextBytes), errRefused}
	for _, c := range codes {
		if c.name == code {
			r.err = c.err
		}
	}
	return r
}
