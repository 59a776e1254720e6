package dds

import (
	"context"
	"fmt"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// This file is what a gateway to another system needs: samples as they are encoded, and where they come from. Package dds/rtps uses it.

// Encoded is a sample of a topic whose type a program need not know: its key, as package cdr writes it for instances (XCDR2, big
// endian, without a header; empty without keys), and its data as the topic's codec writes them.
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

// Origin names a writer of another system, for which a writer of this space stands: the system, and the writer in it.
type Origin struct {
	// Side is the name of the other system. A gateway of package rtps adds lines to it if the samples came from another space: that space, the side
	// where they came into it, and so on. The side of the writers of clients is "client".
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

// WriterFor opens a writer that stands for one of another system. Its samples are written with Carry, and each of them takes
// effect once, by its number, also if several members carry it: a number that is not above all before it has no effect.
func (t *Topic[T]) WriterFor(ctx context.Context, set QoS, o Origin) (*Writer[T], error) {
	if t.p.client != nil {
		return nil, fmt.Errorf("dds: topic %q: %w: a writer that stands for another one is of a member", t.name, qos.ErrRefused)
	}
	at := space.Origin(o)
	e, err := t.open(ctx, space.EndpointInfo{QoS: set, Origin: &at}, unfiltered)
	if err != nil {
		return nil, err
	}
	return newWriter(t, e, set), nil
}

// Carry writes a sample of the writer's origin, in the order of their numbers. It waits for buffer space in the order, and does not wait
// until the sample has its position: Participant.Carried tells.
func (w *Writer[T]) Carry(ctx context.Context, c Carried, v T) error {
	if c.Sequence == 0 {
		return fmt.Errorf("dds: topic %q: a sample of another system without a number", w.topic.name)
	}
	s := space.Sample{Operation: space.Operation(c.Operation), Source: c.Source, Sequence: c.Sequence}
	_, err := w.write(ctx, s, v, false)
	return err
}

// CloseOrigin closes a writer that stands for one of another system, which has ended. The space forgets the numbers of its samples: a writer with the same
// name that starts later numbers its own from 1.
func (w *Writer[T]) CloseOrigin(ctx context.Context) error {
	w.closed.Store(true)
	return w.p.control(ctx, func(now int64) ([]byte, error) { return space.AppendOriginEnd(nil, now, w.id) })
}

// Progress is how far the order has come at this process.
type Progress struct {
	Position uint64         // records that were applied
	Version  squall.Version // of the last one, in the log of a space that is Persistent
	Changes  uint64         // of topics, writers and readers of the space
}

// Carried waits until this process is beyond a position, and calls see. Its argument returns the number of the last sample of an origin that is in the
// order, and the position at which the origin ended last (CloseOrigin): all earlier samples are in the order, and the number counts only later ones.
// Both are 0 if there is none. The argument must not be kept.
func (p *Participant) Carried(ctx context.Context, after uint64, see func(of func(Origin) (last, ended uint64))) (Progress, error) {
	if p.client != nil {
		return Progress{}, fmt.Errorf("dds: %w: a client does not have the order", qos.ErrRefused)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.space.Position() <= after {
		if err := p.wait(ctx); err != nil {
			return Progress{}, err
		}
	}
	see(func(o Origin) (last, ended uint64) { return p.space.Ordered(space.Origin(o)) })
	return Progress{p.space.Position(), p.version, p.changes}, nil
}

// TopicInfo describes a topic of the space.
type TopicInfo struct {
	Name  string
	Type  string // name of the codec
	Keyed bool
	QoS   QoS
}

// Topics returns the topics of the space, in the order in which they were declared. A client asks its relay, and returns none if it has no relay.
func (p *Participant) Topics() []TopicInfo {
	var all []TopicInfo
	for _, t := range p.topicsAndEndpoints().Topics {
		all = append(all, TopicInfo(t))
	}
	return all
}

// Endpoint is a writer or a reader of the space, at whichever member.
type Endpoint struct {
	ID     ID
	Topic  string
	Reader bool
	QoS    QoS
	Origin *Origin // of a writer that stands for one of another system
}

// topicsAndEndpoints describes the space.
func (p *Participant) topicsAndEndpoints() remote.Answer {
	if p.client != nil {
		return p.client.describe()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return remote.Answer{Topics: p.space.Topics(), Endpoints: p.space.Endpoints()}
}

// Endpoints returns the writers and readers of the space, in the order in which they were opened. A client asks its relay, and returns none if it has
// no relay.
func (p *Participant) Endpoints() []Endpoint {
	var all []Endpoint
	for _, e := range p.topicsAndEndpoints().Endpoints {
		all = append(all, Endpoint{ID: idOf(e.ID), Topic: e.Topic, Reader: e.Reader, QoS: e.QoS, Origin: (*Origin)(e.Origin)})
	}
	return all
}

// Self is the participant's own part in the names of its writers and readers: an ID without a number.
func (p *Participant) Self() ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return idOf(space.ID{Process: p.self})
}
