package rdmc

import (
	"io"

	"github.com/squall-go/squall/internal/crc"
)

// intake reads what comes on a connection for blocks, all of it: another reader would wait for more
// than it wants.
type intake interface {
	// prompt says whether bytes are to be taken as they come, at the cost of processor time: others
	// wait for what follows them.
	prompt(on bool)
	// read fills into, and returns its checksum. The error is io.EOF only if nothing came, as with
	// io.ReadFull.
	read(into []byte) (sum uint32, err error)
}

// eager is the intake of what is no socket: TLS connections, streams, and connections of systems
// without the calls that intake_linux.go uses. It sums pieces when they come, while the caches
// still have them.
type eager struct{ from io.Reader }

func (eager) prompt(bool) {}

func (e eager) read(into []byte) (sum uint32, err error) {
	for at, n := 0, 0; at < len(into); at += n {
		n, err = e.from.Read(into[at:])
		sum = crc.Add(sum, into[at:at+n])
		switch {
		case at+n == len(into):
			return sum, nil
		case err == io.EOF && at+n > 0:
			return sum, io.ErrUnexpectedEOF
		case err != nil:
			return sum, err
		}
	}
	return sum, nil
}

// wasteBytes is the number of unwanted bytes that are read at a time.
const wasteBytes = 64 << 10

// skip reads and drops unwanted bytes.
func skip(from intake, n int) error {
	waste := make([]byte, min(n, wasteBytes))
	for ; n > 0; n -= len(waste) {
		waste = waste[:min(n, len(waste))]
		if _, err := from.read(waste); err != nil {
			return err
		}
	}
	return nil
}
