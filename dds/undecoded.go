package dds

import (
	"fmt"

	"github.com/squall-go/squall/dds/internal/space"
)

// DecodeError is the error of samples that the codec of a topic cannot decode, or ends of instances
// of which it cannot decode the key. The call that returns it has read or taken these samples like
// the other samples of its result.
type DecodeError struct {
	Topic   string
	Samples []Undecoded // in the order of their positions
}

// Undecoded is a sample that cannot be decoded.
type Undecoded struct {
	Info Info
	Key  []byte // of the instance, as package cdr encodes it
	Data []byte // what the writer's codec wrote; nil if Info.Valid is false. Other readers have the same bytes: they must not be changed
	Err  error  // of the codec
}

// Error describes the first sample.
func (e *DecodeError) Error() string {
	text := fmt.Sprintf("dds: topic %q: the sample at position %d: %v", e.Topic, e.Samples[0].Info.Position, e.Samples[0].Err)
	if more := len(e.Samples) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// Unwrap returns the errors of the codec.
func (e *DecodeError) Unwrap() []error {
	all := make([]error, len(e.Samples))
	for i := range e.Samples {
		all[i] = e.Samples[i].Err
	}
	return all
}

// add adds a sample; e is nil before the first one.
func (e *DecodeError) add(topic string, h *space.Held, i *Info, err error) *DecodeError {
	if e == nil {
		e = &DecodeError{Topic: topic}
	}
	e.Samples = append(e.Samples, Undecoded{*i, []byte(h.Key), h.Data, err})
	return e
}

// err is e as an error: nil if no sample was added.
func (e *DecodeError) err() error {
	if e == nil {
		return nil
	}
	return e
}
