// Package protobuf has the codec of protocol buffers for operations of package replicated:
//
//	var Deposit = replicated.NewCommand[*pb.Deposit, *pb.Balance]("deposit").
//		Encoded(protobuf.Codec[*pb.Deposit](), protobuf.Codec[*pb.Balance]())
//
// Only programs that import it are built with google.golang.org/protobuf.
//
// A message is encoded straight into the ring. Fields that the receiver does not know are kept in a
// message and lost when its fields are copied elsewhere; fields that the sender does not know have
// their default. As always with protocol buffers, a number of a field is never given another
// meaning.
package protobuf

import (
	"fmt"
	"reflect"

	"github.com/squall-go/squall/replicated"
	"google.golang.org/protobuf/proto"
)

// Codec returns the codec of a message, which is a pointer to a generated struct. Messages with the
// methods that vtprotobuf generates (SizeVT, MarshalToSizedBufferVT, UnmarshalVT) are encoded and
// decoded by them. Codec panics if M is no pointer.
func Codec[M proto.Message]() replicated.Codec[M] {
	t := reflect.TypeFor[M]()
	if t.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("protobuf: %v is no pointer to a generated struct", t))
	}
	return codec[M]{t.Elem()}
}

type codec[M proto.Message] struct {
	generated reflect.Type // the struct that an M points to
}

// fresh returns an empty message, in less time than protoreflect does.
func (c codec[M]) fresh() M { return reflect.New(c.generated).Interface().(M) }

// Name implements replicated.Named.
func (codec[M]) Name() string { return "protobuf" }

// fast is what vtprotobuf generates.
type fast interface {
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
	UnmarshalVT(data []byte) error
}

// ordered has equal messages encoded alike.
var ordered = proto.MarshalOptions{Deterministic: true}

// Size implements replicated.Sizer.
func (codec[M]) Size(m *M) int {
	if f, ok := any(*m).(fast); ok {
		return f.SizeVT()
	}
	return ordered.Size(*m)
}

// Append implements replicated.Codec.
func (c codec[M]) Append(b []byte, m *M) ([]byte, error) {
	f, ok := any(*m).(fast)
	if !ok {
		return ordered.MarshalAppend(b, *m)
	}
	n, size := len(b), f.SizeVT()
	if cap(b)-n < size {
		b = append(b, make([]byte, size)...)
	}
	b = b[:n+size]
	if used, err := f.MarshalToSizedBufferVT(b[n:]); err != nil || used != size {
		return b[:n], fmt.Errorf("%d bytes of %d: %w", used, size, err)
	}
	return b, nil
}

// Decode implements replicated.Codec. The message refers to no byte of data.
func (c codec[M]) Decode(data []byte, m *M) error {
	*m = c.fresh()
	if f, ok := any(*m).(fast); ok {
		return f.UnmarshalVT(data)
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(data, *m) // into an empty message, which need not be reset
}

// Copy implements replicated.Copier.
func (c codec[M]) Copy(m M) M {
	if !m.ProtoReflect().IsValid() { // nil is encoded as an empty message
		return c.fresh()
	}
	return proto.Clone(m).(M)
}
