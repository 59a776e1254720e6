//go:build linux

package verbs

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/internal/mutant"
)

// receiver is the receiving half of a link. The counters wrap around; receives that are posted are
// those from used to posted + receives.
//
//	used ≥ posted    messages that were used up ≥ receives that were posted again (QP3)
type receiver struct {
	used, posted uint32
	tail         []byte // lines of a frame of which not all are here
}

// receive returns the next buffer to post again.
func (l *Link) receive() device.Receive {
	at := l.rx.posted % receives
	r := device.Receive{
		ID: receiveID(l.id, l.rx.posted+receives), Local: l.stageAt.Address + uint64(at)*messageBytes,
		Bytes: messageBytes, Key: l.stageAt.Key,
	}
	l.rx.posted++
	return r
}

// first posts all receives, before the pair is connected.
func (l *Link) first() error {
	l.rx.posted -= receives // the buffers were never posted
	var all [receives]device.Receive
	for i := range all {
		all[i] = l.receive()
	}
	return l.pair.Post(all[:], nil)
}

// buffer returns the buffer of the message that completes next.
func (l *Link) buffer() []byte {
	return l.stage[l.rx.used%receives*messageBytes:][:messageBytes]
}

// flagsOf returns the flags of a message that arrives while the link ends, and drops the rest.
func (l *Link) flagsOf(c device.Completion) (flags byte) {
	if b := l.buffer(); c.Bytes >= headBytes && c.Bytes <= messageBytes {
		flags = b[2]
	}
	l.rx.used++
	return flags
}

// received checks the next message, of n bytes, and applies it (QP8).
func (l *Link) received(n uint32) error {
	if n < headBytes || n > messageBytes {
		return fmt.Errorf("%w: QP8: a message of %d bytes", fabric.ErrViolation, n)
	}
	if mutant.Enabled && mutant.On(mutant.EarlyReceive) {
		l.rx.used++
		if err := l.pair.Post([]device.Receive{l.receive()}, nil); err != nil {
			return err
		}
		l.rx.used--
	}
	b := l.buffer()[:n]
	lines, flags, granted := int(binary.LittleEndian.Uint16(b)), b[2], binary.LittleEndian.Uint32(b[4:])
	if int(n) != headBytes+lines*lineBytes || flags&^(flagMore|flagLast) != 0 || b[3] != 0 {
		return fmt.Errorf("%w: QP8: a message of %d bytes with %d lines and flags %#x", fabric.ErrViolation, n, lines, flags)
	}
	if more := granted - l.tx.granted; more > receives || granted-l.tx.sent > receives {
		return fmt.Errorf("%w: QP8: %d receives in all after %d, and %d messages", fabric.ErrViolation, granted, l.tx.granted, l.tx.sent)
	}
	l.tx.granted = granted
	if err := l.takeLines(b[headBytes:], flags&flagMore != 0); err != nil {
		return err
	}
	l.over = l.over || flags&flagLast != 0
	l.rx.used++
	return nil
}

// takeLines stores the lines of a frame when all of them are here: a reader of a part of them might
// see a word and not what was pushed before it (F2).
func (l *Link) takeLines(lines []byte, more bool) error {
	if more || len(l.rx.tail) > 0 {
		if len(l.rx.tail)+len(lines) > l.peerShape.ControlBytes/fabric.LineBytes*lineBytes {
			return fmt.Errorf("%w: QP8: a frame with more lines than the row's %d", fabric.ErrViolation, l.peerShape.ControlBytes/fabric.LineBytes)
		}
		l.rx.tail = append(l.rx.tail, lines...)
		lines = l.rx.tail
	}
	if more {
		return nil
	}
	for at := 0; at < len(lines); at += lineBytes {
		if err := l.takeLine(lines[at : at+lineBytes]); err != nil {
			return err
		}
	}
	l.rx.tail = l.rx.tail[:0]
	return nil
}

// takeLine stores one control line, word by word (F1).
func (l *Link) takeLine(b []byte) error {
	off := binary.LittleEndian.Uint64(b)
	if off%fabric.LineBytes != 0 || off >= uint64(l.peerShape.ControlBytes) {
		return fmt.Errorf("%w: QP8: line at %d, the row's lines end at %d", fabric.ErrViolation, off, l.peerShape.ControlBytes)
	}
	for w := 0; w < fabric.LineBytes; w += 8 {
		atomic.StoreUint64(fabric.Word(l.replica, int(off)+w), binary.LittleEndian.Uint64(b[8+w:]))
	}
	return nil
}
