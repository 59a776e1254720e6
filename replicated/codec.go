package replicated

import (
	"bytes"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Codec encodes and decodes the arguments or the replies of an operation. Its methods are called
// from several goroutines.
type Codec[T any] interface {
	// Append appends the encoding of v to b.
	Append(b []byte, v *T) ([]byte, error)
	// Decode sets v, which is zero, to what data encodes. V may refer to data only if the receiver of
	// the value copies what it keeps: data is overwritten when the operation has been executed.
	Decode(data []byte, v *T) error
}

// Sizer is implemented by codecs that know the size of an encoding before they append it. The
// arguments of commands are then encoded straight into the ring, without a copy.
type Sizer[T any] interface {
	// Size returns how many bytes Append appends for v.
	Size(v *T) int
}

// Copier is implemented by codecs that copy a value in less time than they encode and decode it.
// The reply to a caller in the process of the handler is then copied.
type Copier[T any] interface {
	// Copy returns a value equal to what Decode makes of the encoding of v, if Append encodes v:
	// whether it does is not looked at. It shares no memory with v that can be changed.
	Copy(v T) T
}

// CBOR returns the codec that is used where no other one is chosen: CBOR (RFC 8949), in its
// deterministic encoding. Fields that the receiver does not have are ignored, and fields that the
// sender does not have are zero.
func CBOR[T any]() Codec[T] { return cborCodec[T]{} }

type cborCodec[T any] struct{}

// Name implements Named.
func (cborCodec[T]) Name() string { return "cbor" }

func (cborCodec[T]) Append(b []byte, v *T) ([]byte, error) {
	data, err := invoke.Marshal(v)
	if err != nil {
		return b, err
	}
	return append(b, data...), nil
}

func (cborCodec[T]) Decode(data []byte, v *T) error { return invoke.Unmarshal(data, v) }

// Raw returns the codec of operations whose values are bytes: they are carried as they are, without
// a copy. It is used where the type is []byte and no other codec is chosen.
func Raw() Codec[[]byte] { return rawCodec{} }

type rawCodec struct{}

// Name implements Named.
func (rawCodec) Name() string { return "raw" }

func (rawCodec) Size(v *[]byte) int { return len(*v) }

func (rawCodec) Append(b []byte, v *[]byte) ([]byte, error) { return append(b, *v...), nil }

func (rawCodec) Decode(data []byte, v *[]byte) error {
	*v = data
	return nil
}

// Copy implements Copier.
func (rawCodec) Copy(v []byte) []byte { return bytes.Clone(v) }

// defaultCodec is Raw for bytes, and CBOR for everything else.
func defaultCodec[T any]() Codec[T] {
	if c, ok := any(rawCodec{}).(Codec[T]); ok {
		return c
	}
	return CBOR[T]()
}
