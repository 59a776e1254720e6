package logwire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"time"
)

// Both directions are sequences of frames:
//
//	0           4           8      9
//	┌───────────┬───────────┬──────┬──────────────┐
//	│ length u32│ crc32c u32│ kind │ length bytes │   the checksum is that of kind and bytes
//	└───────────┴───────────┴──────┴──────────────┘
type kind uint8

const (
	kindRequest kind = iota + 1 // JSON; of readers only, like pulses
	kindPulse                   // nothing: the sender lives
	kindRecords                 // records; the last one may go on in the next frames
	kindMore                    // of its data
	kindBytes                   // of a snapshot
	kindInfo                    // JSON: one log
	kindMark                    // JSON: one record without its data
	kindEnd                     // JSON: how many records or bytes were sent, or what is wrong
)

const (
	headerBytes = 9
	// frameBytes is what a frame of records or of a snapshot is filled up to.
	frameBytes = 512 << 10
	// maxFrameBytes bounds the frames that a reader takes.
	maxFrameBytes = 1 << 20
	// maxRequestBytes bounds those that a member takes. A name has 256 bytes at most, which JSON may make sixfold.
	maxRequestBytes = 8 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writer sends frames. Its methods may be called by several goroutines.
type writer struct {
	conn  net.Conn
	stall time.Duration

	mu  sync.Mutex
	err error // the first one stays
}

// newFrame is an empty frame with room for its header.
func newFrame(room int) []byte { return make([]byte, headerBytes, headerBytes+room) }

// send sends a frame that has room for its header in front. A peer that takes nothing must not keep it for ever.
func (w *writer) send(k kind, frame []byte) error {
	frame[8] = byte(k)
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-headerBytes))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], castagnoli))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.conn.SetWriteDeadline(time.Now().Add(w.stall))
	}
	if w.err == nil {
		_, w.err = w.conn.Write(frame)
	}
	return w.err
}

// say sends a value as JSON.
func (w *writer) say(k kind, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.send(k, append(newFrame(len(text)), text...))
}

// pulse shows, until stop, that this side lives.
func (w *writer) pulse(every time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if w.send(kindPulse, newFrame(0)) != nil {
				return
			}
		case <-stop:
			return
		}
	}
}

// reader takes frames.
type reader struct {
	conn    net.Conn
	silence time.Duration
	max     int // bytes of a frame
}

// next reads one frame into memory of its own, which the caller may keep.
func (r *reader) next() (kind, []byte, error) {
	var head [headerBytes]byte
	if err := r.fill(head[:]); err != nil {
		return 0, nil, err
	}
	length, sum := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if err := r.announce(length); err != nil {
		return 0, nil, err
	}
	bytes := make([]byte, length) // bounded by max (LW2)
	if err := r.fill(bytes); err != nil {
		return 0, nil, inside(err)
	}
	have := crc32.Update(crc32.Checksum(head[8:], castagnoli), castagnoli, bytes)
	if have != sum {
		return 0, nil, fmt.Errorf("%w: %08x over %d bytes, announced %08x", ErrChecksum, have, length, sum)
	}
	return kind(head[8]), bytes, nil
}

// announce judges the length of a frame before anything is done about it.
func (r *reader) announce(length uint32) error {
	if uint64(length) > uint64(r.max) {
		return fmt.Errorf("%w: a frame of %d bytes, at most %d", ErrCorrupt, length, r.max)
	}
	return nil
}

// inside makes an end between frames one inside of a frame.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *reader) fill(p []byte) error {
	if err := r.conn.SetReadDeadline(time.Now().Add(r.silence)); err != nil {
		return err
	}
	_, err := io.ReadFull(r.conn, p)
	return err
}

// decode reads JSON that came in a frame.
func decode(bytes []byte, v any) error {
	if err := json.Unmarshal(bytes, v); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}
