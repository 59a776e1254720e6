package multicast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
)

// errNoBody: a large message was published whose body is not here.
var errNoBody = errors.New("a large message without its body")

// Body is the content of a large message, in memory of its own. A goroutine that holds it may read
// it; when the last hold has ended, it is freed.
type Body struct {
	Data []byte
	File string // where the body lies while it is held; empty: in memory

	free    func()
	holders atomic.Int32
}

// NewBody is a body with one holder. free may be nil.
func NewBody(data []byte, file string, free func()) *Body {
	b := &Body{Data: data, File: file, free: free}
	b.holders.Store(1)
	return b
}

// Hold keeps the body until one more Release. The caller holds the body, or is in the upcall of its
// message. Any goroutine.
func (b *Body) Hold() *Body {
	b.holders.Add(1)
	return b
}

// Release ends one hold. Any goroutine.
func (b *Body) Release() {
	if b.holders.Add(-1) == 0 && b.free != nil {
		b.free()
	}
}

// Bodies is where the bodies of a view's large messages are. It is asked on the loop.
type Bodies interface {
	// Take gives the body of a sender's message away, or nil if there is none of that id. The
	// caller releases it.
	Take(sender order.SenderRank, id uint64) *Body
}

// recordBytes is the size of what the ring has of a large message: its id, by which its sender
// tells its bodies apart, and its length.
const recordBytes = 16

// Place gives a large message its place after everything that was claimed before, if there is space
// for its record now, and returns its number as a claim. Every member has its body. The caller
// holds the lock of the application side.
func (s *Subgroup) Place(id uint64, size int) (claim uint64, ok bool) {
	var record [recordBytes]byte
	binary.LittleEndian.PutUint64(record[:], id)
	binary.LittleEndian.PutUint64(record[8:], uint64(size))
	if claim, ok = s.Sender.Send(record[:], smc.Large); ok {
		s.Stats.SentBytes.add(uint64(size))
		s.Stats.LargeSent.add(1)
	}
	return claim, ok
}

// fetch replaces the record of a large message by its body. A record without a body is invalid.
func (s *Subgroup) fetch(m *Message, k int) error {
	if len(m.Data) != recordBytes || s.bodies == nil {
		return fmt.Errorf("%w: a record of %d bytes", errNoBody, len(m.Data))
	}
	id, size := binary.LittleEndian.Uint64(m.Data), binary.LittleEndian.Uint64(m.Data[8:])
	b := s.bodies.Take(order.SenderRank(k), id)
	if b == nil {
		return fmt.Errorf("%w: message %d of %d bytes", errNoBody, id, size)
	}
	if uint64(len(b.Data)) != size {
		b.Release()
		return fmt.Errorf("%w: message %d has %d bytes, its record says %d", errNoBody, id, len(b.Data), size)
	}
	m.Data, m.body = b.Data, b
	s.larges++
	return nil
}

// releaseBodies ends the core's hold on the bodies of messages that were taken.
func (s *Subgroup) releaseBodies(run []Message) {
	for i := range run {
		if b := run[i].body; b != nil {
			run[i].body = nil
			b.Release()
			s.larges--
		}
	}
}

// Drop ends the core's hold on the bodies of messages that the application did not take, and never
// will. Nothing is delivered afterwards.
func (s *Subgroup) Drop() {
	s.releaseBodies(s.run[s.runStart:])
	s.LetGo()
}
