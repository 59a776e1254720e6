//go:build linux

package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/internal/mutant"
)

// The geometry of a stream. Both ends must have the same.
const (
	slotCount      = 16
	slotBytes      = 64 << 10
	reportSlots    = slotCount / 4 // that are free before a note says so by itself
	noteBytes      = 16
	noteReceives   = slotCount + slotCount/reportSlots + 1 // that are posted for a pair
	streamRequests = 64                                    // that may be outstanding

	noteLast = 1 // a flag: nothing comes after this
)

// slots carry bytes in both directions over a queue pair. Their methods never wait; Stream waits,
// and has the lock.
//
// Each direction has slots of memory at the receiver, which are registered once and used in turn. A
// write puts the bytes of one slot there, and then a message, the note, says so: when it completes,
// the bytes are in place.
//
//	note:  u32 bytes in the next slot, or 0 | u32 slots that the sender of the note has freed | u32 flags | u32 0
//
// The counters of a direction wrap around:
//
//	wrote ≥ arrived there ≥ consumed there ≥ freed, and wrote - freed ≤ slotCount
//
// Both ends copy, as they do with TCP. Memory of messages is not registered instead: that takes as
// long as sending it, pins it once for each peer, and a peer that once could write it could change
// what was checked and delivered. Here a peer can write the slots of its own stream and nothing
// else, and what is checked is the copy.
//
// Receives are never exhausted, without credits. Slots are freed after the receive of their note
// was posted again, so at most slotCount notes with bytes have none; a note without bytes frees
// reportSlots that no other one did, and there is one last note.
//
// Bytes to send are put into a slot only when the peer has freed it (QP10): what was there is in
// place at the peer, so the device reads it no more.
type slots struct {
	domain  device.Domain
	queue   device.Queue
	pair    device.Pair
	free    []func() error
	landing []byte // where the peer writes
	stage   []byte // slots of bytes to send, then notes to send, then receives
	landAt  device.Region
	stageAt device.Region
	remote  device.Region // the landing of the peer
	chunk   int           // most bytes of a slot that one request writes
	inline  bool

	// Sending.
	wrote, freed      uint32
	posted, completed uint32 // requests
	ending, ended     bool   // the last note is wanted, is posted

	// Receiving.
	arrived, consumed, told uint32
	bytes                   [slotCount]int
	at                      int // of the slot consumed: what was read of it
	last                    bool

	buf   [32]device.Completion
	again []device.Receive
}

// newSlots makes slots that are not connected. It returns them whatever the error: release gives up
// what they have.
func newSlots(d device.Device) (*slots, error) {
	limits := d.Limits()
	s := &slots{chunk: min(slotBytes, int(limits.MessageBytes)), inline: limits.InlineBytes >= noteBytes}
	err := s.open(d)
	if err == nil {
		err = s.register()
	}
	if err == nil {
		capacity := device.Capacity{Requests: streamRequests, Receives: noteReceives}
		if s.inline {
			capacity.InlineBytes = noteBytes
		}
		s.pair, err = s.domain.Pair(s.queue, capacity)
	}
	if err == nil {
		for i := range uint32(noteReceives) {
			s.again = append(s.again, s.receive(i))
		}
		err = s.pair.Post(s.again, nil)
		s.again = s.again[:0]
	}
	if err != nil {
		return s, fmt.Errorf("%w: %w", device.ErrFailed, err)
	}
	return s, nil
}

func (s *slots) open(d device.Device) (err error) {
	for _, m := range []struct {
		mem   *[]byte
		bytes int
	}{{&s.landing, slotCount * slotBytes}, {&s.stage, slotCount*slotBytes + (streamRequests+noteReceives)*noteBytes}} {
		mem, free, err := fabric.NewMemory(m.bytes)
		if err != nil {
			return err
		}
		*m.mem, s.free = mem, append(s.free, free)
	}
	if s.domain, err = d.Domain(); err != nil {
		return err
	}
	s.queue, err = d.Queue(streamRequests + noteReceives)
	return err
}

// register lets the peer write the landing, and nothing else.
func (s *slots) register() (err error) {
	if s.landAt, err = s.domain.Register(s.landing, true, true); err == nil {
		s.stageAt, err = s.domain.Register(s.stage, true, false)
	}
	return err
}

func (s *slots) setup() setup {
	return setup{Pair: s.pair.Endpoint(), Receives: noteReceives, Message: slotBytes, Address: s.landAt.Address, Key: s.landAt.Key}
}

func receiveOffset(i uint32) int { return slotCount*slotBytes + (streamRequests+int(i))*noteBytes }

// receive is the i-th receive.
func (s *slots) receive(i uint32) device.Receive {
	return device.Receive{ID: receiveBit | uint64(i), Local: s.stageAt.Address + uint64(receiveOffset(i)), Bytes: noteBytes, Key: s.stageAt.Key}
}

// requestsFree is how many requests the pair takes now.
func (s *slots) requestsFree() int { return streamRequests - int(s.posted-s.completed) }

// slot returns the space for bytes to send, or nil if there is none now.
func (s *slots) slot() []byte {
	if s.wrote-s.freed == slotCount || s.requestsFree() < 2 {
		return nil
	}
	return s.stage[s.wrote%slotCount*slotBytes:][:s.chunk]
}

// send sends the first n bytes of the slot.
func (s *slots) send(n int) error {
	off := uint64(s.wrote%slotCount) * slotBytes
	write := device.Work{
		Kind: device.Write, Local: s.stageAt.Address + off, LocalKey: s.stageAt.Key, Bytes: uint32(n), Remote: s.remote.Address + off, RemoteKey: s.remote.Key,
	}
	s.wrote++
	if mutant.Enabled && mutant.On(mutant.NoteFirst) {
		return errors.Join(s.note(0, n, 0), s.post(write))
	}
	return s.note(1, n, 0, write) // QP9
}

// note sends a note after a number of writes.
func (s *slots) note(writes uint32, n int, flags uint32, work ...device.Work) error {
	off := slotCount*slotBytes + int((s.posted+writes)%streamRequests)*noteBytes
	b := s.stage[off:][:noteBytes]
	s.told = s.consumed
	if mutant.Enabled && mutant.On(mutant.SlotEarly) {
		s.told = s.arrived
	}
	binary.LittleEndian.PutUint32(b, uint32(n))
	binary.LittleEndian.PutUint32(b[4:], s.told)
	binary.LittleEndian.PutUint32(b[8:], flags)
	binary.LittleEndian.PutUint32(b[12:], 0)
	return s.post(append(work, device.Work{
		ID: uint64((s.posted + writes + 1) & countMask), Kind: device.Send, Local: s.stageAt.Address + uint64(off), LocalKey: s.stageAt.Key, Bytes: noteBytes,
		Inline: s.inline, Signalled: true,
	})...)
}

func (s *slots) post(work ...device.Work) error {
	s.posted += uint32(len(work))
	if err := s.pair.Post(nil, work); err != nil {
		return fmt.Errorf("%w: %w", device.ErrFailed, err)
	}
	return nil
}

// peek returns bytes that arrived and were not consumed.
func (s *slots) peek() []byte {
	if s.arrived == s.consumed {
		return nil
	}
	i := s.consumed % slotCount
	return s.landing[i*slotBytes:][s.at:s.bytes[i]]
}

// consume frees the first n bytes of peek.
func (s *slots) consume(n int) error {
	if s.at += n; s.at == s.bytes[s.consumed%slotCount] {
		s.at, s.consumed = 0, s.consumed+1
	}
	return s.report()
}

// report says what is free, and that nothing more comes, if that is wanted.
func (s *slots) report() error {
	least := uint32(reportSlots)
	if mutant.Enabled && mutant.On(mutant.NoteOften) {
		least = 1
	}
	if s.ended || s.requestsFree() == 0 || !s.ending && s.consumed-s.told < least {
		return nil
	}
	if s.ended = s.ending; s.ended {
		return s.note(0, 0, noteLast)
	}
	return s.note(0, 0, 0)
}

// quiet reports whether the peer has everything.
func (s *slots) quiet() bool { return s.ended && s.posted == s.completed }

// poll takes in what completed, and reports whether anything did.
func (s *slots) poll() (work bool, err error) {
	n, err := s.queue.Poll(s.buf[:])
	if err != nil {
		return false, fmt.Errorf("%w: %w", device.ErrFailed, err)
	}
	for _, c := range s.buf[:n] {
		if err := s.complete(c); err != nil {
			return true, err
		}
	}
	if len(s.again) > 0 {
		if err := s.pair.Post(s.again, nil); err != nil {
			return true, fmt.Errorf("%w: %w", device.ErrFailed, err)
		}
		s.again = s.again[:0]
	}
	return n > 0, s.report()
}

func (s *slots) complete(c device.Completion) error {
	count := uint32(c.ID) & countMask
	switch {
	case c.Status != 0:
		return fmt.Errorf("%w: %w: a request completed with status %d (%s)", fabric.ErrPeerGone, device.ErrFailed, c.Status, statusText(c.Status))
	case c.ID&receiveBit == 0:
		delta := (count - s.completed) & countMask
		if delta == 0 || delta > s.posted-s.completed {
			return fmt.Errorf("%w: request %d completed, of [%d, %d]", device.ErrFailed, count, s.completed&countMask, s.posted&countMask)
		}
		s.completed += delta
		return nil
	case count >= noteReceives:
		return fmt.Errorf("%w: receive %d of %d completed", device.ErrFailed, count, noteReceives)
	}
	s.again = append(s.again, s.receive(count))
	return s.noted(s.stage[receiveOffset(count):][:noteBytes], c.Bytes)
}

// noted takes in a note (QP8).
func (s *slots) noted(b []byte, length uint32) error {
	n, freed, flags := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	switch {
	case length != noteBytes || n > slotBytes || flags&^noteLast != 0 || binary.LittleEndian.Uint32(b[12:]) != 0 || s.last:
		return fmt.Errorf("%w: QP8: a note of %d bytes, for %d bytes, with flags %#x", fabric.ErrViolation, length, n, flags)
	case freed-s.freed > s.wrote-s.freed:
		return fmt.Errorf("%w: QP8: %d slots are free in all after %d, and %d were used", fabric.ErrViolation, freed, s.freed, s.wrote)
	case n > 0 && s.arrived-s.consumed == slotCount:
		return fmt.Errorf("%w: QP8: more than %d slots at a time", fabric.ErrViolation, slotCount)
	}
	s.freed, s.last = freed, flags&noteLast != 0
	if n > 0 {
		s.bytes[s.arrived%slotCount] = int(n)
		s.arrived++
	}
	return nil
}

// release gives up what the slots hold. Nobody uses them any more.
func (s *slots) release() error {
	var errs []error
	if s.pair != nil {
		errs = append(errs, s.pair.Close())
	}
	if s.queue != nil {
		errs = append(errs, s.queue.Close())
	}
	if s.domain != nil {
		errs = append(errs, s.domain.Close())
	}
	for _, free := range s.free {
		errs = append(errs, free())
	}
	return errors.Join(errs...)
}
