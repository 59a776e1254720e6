package rdmc

import (
	"net"

	"github.com/squall-go/squall/internal/background"
	"github.com/squall-go/squall/internal/relay"
)

// readBlocks reads blocks, straight to where they belong, until the link ends.
func (l *link) readBlocks() {
	var header [relay.HeaderBytes]byte
	from := newIntake(l.blocks)
	for gaveWay := !l.node.cfg.Background; ; {
		_, err := from.read(header[:])
		if !gaveWay {
			background.GiveWay()
			gaveWay = true
		}
		var h relay.Header
		if err == nil {
			h, err = relay.ParseHeader(&header)
		}
		if err == nil {
			err = l.readBlock(from, &h)
		}
		if err != nil {
			l.blocksEnded(err)
			return
		}
		l.hearsPeer()
	}
}

// readBlock reads the bytes behind a header.
func (l *link) readBlock(from intake, h *relay.Header) error {
	m, err := l.member(h.Channel)
	if err != nil {
		return err
	}
	var into []byte
	var alone bool
	if m != nil {
		into, alone = m.group.expect(m, h)
	}
	if into == nil {
		return skip(from, int(h.Length))
	}
	from.prompt(!alone)
	l.traffic.moving.Add(1)
	sum, err := from.read(into)
	l.traffic.moving.Add(-1)
	arrival := relay.Whole
	switch {
	case err != nil:
		arrival = relay.Cut
	case sum != h.Sum:
		arrival = relay.Damaged
	}
	m.group.arrived(m, h, arrival)
	return err
}

// writeBlock implements carrier. It waits for the blocks of other groups, at most one of each, and
// for the socket.
func (l *link) writeBlock(h *relay.Header, block []byte, wanted func() bool) {
	l.traffic.moving.Add(1)
	defer l.traffic.moving.Add(-1)
	l.block.mu.Lock()
	defer l.block.mu.Unlock()
	if !wanted() {
		return
	}
	var header [relay.HeaderBytes]byte
	h.Put(&header)
	var err error
	if !l.shown.secure {
		both := net.Buffers{header[:], block}
		_, err = both.WriteTo(l.blocks)
	} else {
		l.block.scratch = append(append(l.block.scratch[:0], header[:]...), block...)
		_, err = l.blocks.Write(l.block.scratch)
	}
	if err != nil {
		l.node.running.Go(func() { l.blocksEnded(err) })
	}
}
