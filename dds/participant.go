package dds

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/errs"
)

// QoS is a value for each policy.
type QoS = qos.Set

// Participant is this process's part in a space of topics: as a client of its members (Dial), or as
// a member (member.Open).
type Participant struct{ core *core.Participant }

// Space is where topics are declared: a *Participant, or a *member.Member, which has one.
type Space interface{ participant() *Participant }

func (p *Participant) participant() *Participant { return p }

// Errors of this package; package qos has the errors of policies.
var (
	// ErrNotOpen is returned after Close.
	ErrNotOpen = core.ErrNotOpen
	// ErrUnknown is returned for a topic, a writer or a reader that the space does not have, or not
	// any more.
	ErrUnknown = space.ErrUnknown
	// ErrInUse is returned for a topic that is to be forgotten and has writers or readers.
	ErrInUse = space.ErrInUse
	// ErrInconsistentTopic is returned where a topic has another type, or other policies.
	ErrInconsistentTopic = space.ErrInconsistentTopic
	// ErrImmutable is returned for a policy that cannot be changed.
	ErrImmutable = space.ErrImmutable
	// ErrInCallback is returned by a writer that would wait in a listener. It is squall.ErrInCallback.
	ErrInCallback = errs.ErrInCallback
	// ErrNotPersistent is returned by Future.Persisted if the space is not Persistent. It is
	// squall.ErrNotPersistent.
	ErrNotPersistent = errs.ErrNotPersistent
)

func init() {
	core.Public = func(c *core.Participant, events any) any { return of(c, events.(func(Event))) }
}

// of returns the Participant over c.
func of(c *core.Participant, events func(Event)) *Participant {
	if events != nil {
		c.Tell = func(e *space.Event) { tell(events, e) }
	}
	return &Participant{c}
}

// Close ends the part of this process: its readers take nothing any more, its writers end at one
// position everywhere, and a member leaves the group. A client waits until what it has written is
// in the order, or there was no relay for the time after which one is given up.
func (p *Participant) Close(ctx context.Context) error { return p.core.Backend.Close(ctx) }

// Position is the number of records that this process has applied: two members at one position are
// in the same state.
func (p *Participant) Position() uint64 {
	p.core.Mu.Lock()
	defer p.core.Mu.Unlock()
	return p.core.Space.Position()
}

// ID is the participant's own part in the names of its writers and readers: an ID without a
// number.
func (p *Participant) ID() ID {
	p.core.Mu.Lock()
	defer p.core.Mu.Unlock()
	return idOf(space.ID{Process: p.core.Self})
}

// TopicInfo describes a topic of the space.
type TopicInfo struct {
	Name  string
	Type  string // name of the codec
	Keyed bool
	QoS   QoS
}

// Topics returns the topics of the space, in the order in which they were declared. A client asks
// its relay, and returns none if it has no relay.
func (p *Participant) Topics() []TopicInfo {
	topics, _ := p.core.Backend.Describe()
	var all []TopicInfo
	for _, t := range topics {
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

// Endpoints returns the writers and readers of the space, in the order in which they were opened. A
// client asks its relay, and returns none if it has no relay.
func (p *Participant) Endpoints() []Endpoint {
	_, endpoints := p.core.Backend.Describe()
	var all []Endpoint
	for _, e := range endpoints {
		all = append(all, Endpoint{ID: idOf(e.ID), Topic: e.Topic, Reader: e.Reader, QoS: e.QoS, Origin: (*Origin)(e.Origin)})
	}
	return all
}

// Explain returns the verdict on each policy by which a writer and a reader of this space match, or
// do not. Those of this process have their own names.
func (p *Participant) Explain(writer, reader ID) ([]qos.Verdict, error) {
	b := p.core.Backend
	_, all := b.Describe()
	var w, r *space.EndpointInfo
	for i := range all {
		switch all[i].ID {
		case b.InSpace(writer.internal()):
			w = &all[i]
		case b.InSpace(reader.internal()):
			r = &all[i]
		}
	}
	switch {
	case w == nil || w.Reader:
		return nil, fmt.Errorf("%w: writer %v", ErrUnknown, writer)
	case r == nil || !r.Reader:
		return nil, fmt.Errorf("%w: reader %v", ErrUnknown, reader)
	case w.Topic != r.Topic:
		return nil, fmt.Errorf("%w: the writer is of topic %q, the reader of %q", ErrInconsistentTopic, w.Topic, r.Topic)
	}
	return qos.Explain(w.QoS, r.QoS), nil
}

// AssertLiveliness says that all writers of this participant that are MANUAL_BY_PARTICIPANT are
// alive, as each sample of any of its writers does. It returns when that is in the order.
func (p *Participant) AssertLiveliness(ctx context.Context) error {
	return p.core.Backend.Assert(ctx, space.ID{Process: p.core.Self})
}
