package ripc

import (
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// line brings the own row of a pair to the peer, and the peer's row here.
type line struct {
	link      fabric.Link
	own       []byte
	row       []byte       // the peer's
	release   func() error // frees the own row
	core      uint64       // that was told to the peer
	postponed postponed    // what a later message takes along
}

// ring wakes a peer that reads the own row itself, if it sleeps.
func (l *line) ring() {
	if fabric.Parked(l.row)&1 == 1 {
		l.link.PushLine(pair.SentLine)
		l.link.Flush()
	}
}

// pushFrames marks the bytes of frames, and the word that covers them, to be written to the socket.
func (l *line) pushFrames(a, b fabric.Range) {
	for _, r := range [...]fabric.Range{a, b} {
		if r.N > 0 {
			l.link.Push(r.Off, r.N)
		}
	}
	l.link.PushLine(pair.SentLine)
}

// pushLines marks the lines of a set that a receiving half changed.
func (l *line) pushLines(set uint32) {
	for line := 0; set != 0; set, line = set>>1, line+1 {
		if set&1 == 1 {
			l.link.PushLine(line * fabric.LineBytes)
		}
	}
}

// setParked says whether the peer has to ring. The holder of the endpoint's mu is the only writer.
func (l *line) setParked(parked bool) {
	w, parity := fabric.Word(l.own, 0), uint64(0)
	if parked {
		parity = 1
	}
	if *w&1 != parity {
		atomic.StoreUint64(w, *w+1)
	}
}
