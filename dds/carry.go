package dds

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/dds/internal/space"
)

// This file is what a gateway to another system needs: samples as they are encoded, and where they
// come from. Package dds/rtps uses it.

// Encoded is a sample of a topic whose type a program need not know: its key, as package cdr writes
// it for instances (XCDR2, big endian, without a header; empty without keys), and its data as the
// topic's codec writes them.
type Encoded struct{ Key, Data []byte }

// EncodedAs is the codec of a topic that other members declare with a codec of this name.
func EncodedAs(name string, keyed bool) Codec[Encoded] { return encodedCodec{name, keyed} }

type encodedCodec struct {
	name  string
	keyed bool
}

func (c encodedCodec) Name() string { return c.name }

func (c encodedCodec) Append(dst []byte, v *Encoded) ([]byte, error) {
	return append(dst, v.Data...), nil
}

func (c encodedCodec) Size(v *Encoded) int { return len(v.Data) }

func (c encodedCodec) Decode(src []byte, v *Encoded) error {
	v.Data = append([]byte(nil), src...)
	return nil
}

// encodedKey has the key of an Encoded beside its data.
type encodedKey struct{}

func (encodedKey) Append(dst []byte, v *Encoded) ([]byte, error) { return append(dst, v.Key...), nil }

func (encodedKey) Decode(src []byte, v *Encoded) error {
	*v = Encoded{Key: append([]byte(nil), src...)}
	return nil
}

// Origin names a writer of another system, for which a writer of this space stands: the system, and
// the writer in it.
type Origin struct {
	// Side is the name of the other system. A gateway of package rtps adds lines to it if the samples
	// came from another space: that space, the side where they came into it, and so on. The side of
	// the writers of clients is "client".
	Side string
	GUID [16]byte
}

// Operation is what a sample does to its instance.
type Operation uint8

// The operations.
const (
	OperationWrite      = Operation(space.Write)
	OperationDispose    = Operation(space.Dispose)
	OperationUnregister = Operation(space.Unregister)
)

// Carried is a sample that comes from another system.
type Carried struct {
	Operation Operation
	Sequence  uint64 // number of the sample at its origin, from 1
	Source    int64  // time of its writer, in nanoseconds since the Unix epoch
}

// WriterFor opens a writer that stands for one of another system. Its samples are written with
// Carry, and each of them takes effect once, by its number, also if several members carry it: a
// number that is not above all before it has no effect. A client has none.
func (t *Topic[T]) WriterFor(ctx context.Context, set QoS, o Origin) (*Writer[T], error) {
	return t.writer(ctx, set, &o)
}

// Carry writes a sample of the writer's origin, in the order of their numbers. It waits for buffer
// space in the order, and does not wait until the sample has its position: Carried of package
// member tells.
func (w *Writer[T]) Carry(ctx context.Context, c Carried, v T) error {
	if c.Sequence == 0 {
		return fmt.Errorf("dds: topic %q: a sample of another system without a number", w.topic.name)
	}
	_, err := w.write(ctx, what{op: space.Operation(c.Operation), sequence: c.Sequence, source: c.Source}, v, false)
	return err
}

// CloseOrigin closes a writer that stands for one of another system, which has ended. The space
// forgets the numbers of its samples: a writer with the same name that starts later numbers its own
// from 1.
func (w *Writer[T]) CloseOrigin(ctx context.Context) error {
	w.closed.Store(true)
	return w.p.Backend.EndOrigin(ctx, w.id)
}
