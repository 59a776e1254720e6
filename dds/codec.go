package dds

import (
	"bytes"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/internal/decode"
)

// Codec encodes the samples of a topic. All writers and readers of a topic have codecs with one
// name.
type Codec[T any] interface {
	// Name is the name of the encoding and of the type.
	Name() string
	// Append appends v. It must not keep v or dst.
	Append(dst []byte, v *T) ([]byte, error)
	// Decode reads what Append appended. It must not keep src in v.
	Decode(src []byte, v *T) error
}

// CBOR encodes samples as CBOR: fields by their names, so that versions of a program may differ in
// them. A reader refuses a sample with an array of more than 131,072 elements, a map of more than
// 131,072 pairs, or more than 32 levels of nesting.
func CBOR[T any]() Codec[T] { return cborCodec[T]{} }

type cborCodec[T any] struct{}

func (cborCodec[T]) Name() string { return "cbor:" + reflect.TypeFor[T]().Name() }

func (cborCodec[T]) Append(dst []byte, v *T) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := cbor.MarshalToBuffer(v, b)
	return b.Bytes(), err
}

func (cborCodec[T]) Decode(src []byte, v *T) error { return cborDecoding.Unmarshal(src, v) }

// Limits of a sample in CBOR, which any process of the space may have sent. A sample beyond them is
// refused by readers.
const (
	maxCBORNesting  = 32
	maxCBORElements = 1 << 17 // of an array; pairs of a map
)

var cborDecoding = decode.New(cbor.DecOptions{MaxNestedLevels: maxCBORNesting, MaxArrayElements: maxCBORElements, MaxMapPairs: maxCBORElements})

// XCDR encodes samples as DDS programs do, in a format of package cdr.
func XCDR[T any](f cdr.Format) (Codec[T], error) {
	c, err := cdr.New[T]()
	if err != nil {
		return nil, err
	}
	return xcdrCodec[T]{c, f}, nil
}

type xcdrCodec[T any] struct {
	*cdr.Codec[T]
	format cdr.Format
}

func (c xcdrCodec[T]) Name() string { return "xcdr:" + c.TypeName() }

func (c xcdrCodec[T]) Append(dst []byte, v *T) ([]byte, error) {
	return c.Codec.Append(dst, v, c.format)
}

// Sizer is implemented by codecs that know the size of an encoding before they append it. Samples
// are then encoded straight into the ring, without a copy.
type Sizer[T any] interface {
	// Size returns how many bytes Append appends for v.
	Size(v *T) int
}

// Raw carries bytes as they are. Several readers have the same bytes, without a copy: they must not
// be changed.
func Raw() Codec[[]byte] { return rawCodec{} }

type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Append(dst []byte, v *[]byte) ([]byte, error) { return append(dst, *v...), nil }

func (rawCodec) Size(v *[]byte) int { return len(*v) }

func (rawCodec) Decode(src []byte, v *[]byte) error {
	*v = src
	return nil
}

// viewer is implemented by codecs whose values are the encoding.
type viewer[T any] interface{ view(src []byte) T }

func (rawCodec) view(src []byte) []byte { return src }
