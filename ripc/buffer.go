package ripc

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/ripc/internal/table"
)

// Buffer is memory to send from: processes of this host read it in place. It has a count of
// references; its memory is reused when no reference is left and no peer reads it any more. Do not
// write a buffer again after sending it: release the buffer, and allocate the next one.
type Buffer struct {
	e     *Endpoint
	m     *samehost.Memory
	refs  atomic.Int32
	freed func() // called when the last reference is given up; nil of a buffer that no cache made
}

// memory is what an endpoint has for long messages.
type memory struct {
	once    sync.Once
	space   *samehost.Space // own memory that others look at; made when it is needed
	views   *samehost.Views // of others' memory
	buffers atomic.Int64    // that are not released

	// Under the endpoint's mu.
	byToken map[string]*peer // over TCP, the peers that dialed: their connections for long messages come later
	budget  table.Budget     // of MaxLongBytes
}

func (m *memory) open(maxBytes int64) {
	m.views, m.byToken, m.budget.Max = samehost.NewViews(), map[string]*peer{}, maxBytes
}

// openMemory makes the own memory.
func (e *Endpoint) openMemory() {
	e.memory.once.Do(func() {
		e.memory.space = samehost.NewSpace(func(remote string, err error) {
			e.cfg.OnReject(fmt.Errorf("ripc: %s: %w", remote, err))
		})
	})
}

// closeMemory gives back what is not in use. What is, is given back when it is released.
func (e *Endpoint) closeMemory() {
	e.memory.once.Do(func() {})
	if e.memory.space != nil {
		e.memory.space.Close()
	}
	e.memory.views.Close()
}

// Alloc returns memory for bodies, with one reference. It is zero at first. Making memory takes
// longer than copying it: what is released is used again.
func (e *Endpoint) Alloc(size int) (*Buffer, error) {
	m, err := e.allocate(size, 0)
	if err != nil {
		return nil, err
	}
	b := &Buffer{e: e, m: m}
	b.refs.Store(1)
	e.memory.buffers.Add(1)
	return b, nil
}

// allocate returns memory that a viewer will look at, or anybody if that is 0.
func (e *Endpoint) allocate(size int, viewer uint64) (*samehost.Memory, error) {
	e.openMemory()
	if e.memory.space == nil {
		return nil, fmt.Errorf("ripc: %w", ErrClosed)
	}
	m, err := e.memory.space.AllocFor(size, viewer)
	switch {
	case errors.Is(err, samehost.ErrClosed):
		return nil, fmt.Errorf("ripc: %w", ErrClosed)
	case err != nil:
		return nil, fmt.Errorf("ripc: %w: %w", ErrLimit, err)
	}
	return m, nil
}

// Buffers is the number of buffers of this endpoint that were not released.
func (e *Endpoint) Buffers() int { return int(e.memory.buffers.Load()) }

// Bytes is the memory, until the last reference is released.
func (b *Buffer) Bytes() []byte { return b.m.Bytes() }

// Body is the buffer as the body of a message. The call that sends it keeps the memory as long as a
// peer looks at it: the buffer may be released at once.
func (b *Buffer) Body() Body {
	return Body{size: int64(len(b.m.Bytes())), bytes: b.m.Bytes(), buffer: b}
}

// Part is a part of the buffer as the body of a message. A process of this host that gets a part
// maps all of the buffer, and can read all of it: do not put what one client may see and what
// another one may see into the same buffer.
func (b *Buffer) Part(offset, size int) (Body, error) {
	if offset < 0 || size < 0 || offset > len(b.m.Bytes()) || size > len(b.m.Bytes())-offset {
		return Body{}, fmt.Errorf("ripc: %w: bytes [%d, %d) of a buffer of %d", os.ErrInvalid, offset, offset+size, len(b.m.Bytes()))
	}
	return Body{size: int64(size), buffer: b, bytes: b.m.Bytes()[offset:][:size]}, nil
}

// Retain adds a reference, for one more Release, and returns the buffer.
func (b *Buffer) Retain() *Buffer {
	n := b.refs.Add(1)
	if invariants.Enabled {
		invariants.Check(n > 1, "RP13", "a buffer without references is retained")
	}
	return b
}

// Release gives up a reference.
func (b *Buffer) Release() {
	n := b.refs.Add(-1)
	if invariants.Enabled {
		invariants.Check(n >= 0, "RP13", "a buffer is released once too often")
	}
	if n == 0 {
		b.e.memory.buffers.Add(-1)
		b.m.Release()
		if b.freed != nil {
			b.freed()
		}
	}
}
