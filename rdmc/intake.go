package rdmc

import (
	"hash/crc32"
	"io"
	"net"
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

// eager is the intake of connections that do not read from the socket directly: TLS connections,
// and connections of systems without the calls that intake_linux.go uses.
type eager struct{ conn net.Conn }

func (eager) prompt(bool) {}

func (e eager) read(into []byte) (sum uint32, err error) {
	_, err = io.ReadFull(e.conn, into)
	return crc32.Checksum(into, castagnoli), err
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
