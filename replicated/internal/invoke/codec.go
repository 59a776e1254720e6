package invoke

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/squall-go/squall/internal/decode"
)

// Codec is replicated.Codec.
type Codec[T any] interface {
	Append(b []byte, v *T) ([]byte, error)
	Decode(data []byte, v *T) error
}

var (
	out, _ = cbor.CoreDetEncOptions().EncMode() // these options are valid
	in     = decode.New(cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxArrayElements: 1 << 24, MaxMapPairs: 1 << 24})
)

// Marshal returns the CBOR of a value, in its deterministic encoding.
func Marshal(v any) ([]byte, error) { return out.Marshal(v) }

// Unmarshal sets v to what its CBOR says, which may change meanwhile.
func Unmarshal(data []byte, v any) error { return in.Unmarshal(data, v) }

// Decode decodes what came from elsewhere: the arguments or the reply of an operation.
func Decode[T any](c Codec[T], data []byte, v *T, part, name string) error {
	return failed(c.Decode(data, v), data, part, name)
}

// DecodeCBOR is Decode with CBOR.
func DecodeCBOR(data []byte, v any, part, name string) error {
	return failed(Unmarshal(data, v), data, part, name)
}

func failed(err error, data []byte, part, name string) error {
	if err != nil {
		return fmt.Errorf("replicated: decoding the %s of %q, %d bytes: %w", part, name, len(data), err)
	}
	return nil
}
