// Package decode reads CBOR from memory that its sender can still change, such as a ring in shared
// memory. The CBOR library checks the whole input first and then trusts what it reads again. So it
// gets a copy.
package decode

import (
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// CBOR decodes within limits.
type CBOR struct{ mode cbor.DecMode }

// New returns a decoder with options, which must be valid.
func New(o cbor.DecOptions) CBOR {
	mode, err := o.DecMode()
	if err != nil {
		panic(err)
	}
	return CBOR{mode}
}

// keptBytes is the most that a copy may take to be used again.
const keptBytes = 64 << 10

var copies = sync.Pool{New: func() any { return new([]byte) }}

// Unmarshal sets v to what data says, which may change meanwhile. Nothing in v refers to data.
func (c CBOR) Unmarshal(data []byte, v any) error {
	b := copies.Get().(*[]byte)
	*b = append((*b)[:0], data...)
	err := c.mode.Unmarshal(*b, v)
	if cap(*b) <= keptBytes {
		copies.Put(b)
	}
	return err
}
