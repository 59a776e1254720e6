package dds_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall/dds"
)

// mixed returns a reader of all samples, and writes some that the reader's codec can decode, one of
// a program with another type, and some more.
func mixed(t *testing.T, options ...dds.Option[position]) *dds.Reader[position] {
	t.Helper()
	p := open(t, 1, nil)[0]
	tp := topic(t, p, dds.QoS{})
	r := reader(t, tp, keepAll, options...)
	good := writer(t, tp, dds.QoS{})
	other, err := dds.NewTopic(t.Context(), p, "positions", dds.EncodedAs("cbor:position", true), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	bad, err := other.Writer(t.Context(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range int32(8) {
		if n == 3 {
			if err := bad.Write(t.Context(), dds.Encoded{Key: []byte{0, 0, 0, 2}, Data: []byte(otherType)}); err != nil {
				t.Fatal(err)
			}
			if err := bad.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		write(t, good, position{Vehicle: 1, N: n})
		if err := good.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// otherType is {"Vehicle": 2, "N": "two", "From": ""}: N is a text.
const otherType = "\xa3gVehicle\x02aNctwodFrom`"

// isOther fails unless an error is that of the sample of the other type, alone.
func isOther(t *testing.T, err error) {
	t.Helper()
	var e *dds.DecodeError
	if !errors.As(err, &e) || len(e.Samples) != 1 {
		t.Fatalf("the error is %v, and should have one sample", err)
	}
	s := e.Samples[0]
	if s.Info.Position == 0 || !s.Info.Valid || string(s.Data) != otherType || string(s.Key) != "\x00\x00\x00\x02" || s.Err == nil || !errors.Is(err, s.Err) {
		t.Errorf("the sample is %+v", s)
	}
	if !strings.Contains(err.Error(), `topic "positions"`) {
		t.Errorf("the error is %v, without the topic", err)
	}
}

func TestASampleThatCannotBeDecodedHidesNoOther(t *testing.T) {
	r := mixed(t)
	for i, call := range []func(dds.Query) ([]dds.Sample[position], error){r.Read, r.Read, r.Take} {
		all, err := call(dds.Query{})
		isOther(t, err)
		if len(all) != 8 {
			t.Fatalf("call %d returns %d of 8 samples", i, len(all))
		}
		for n, s := range all {
			if s.Value != (position{Vehicle: 1, N: int32(n)}) {
				t.Errorf("call %d: sample %d is %v", i, n, s.Value)
			}
		}
	}
	if all, err := r.Take(dds.Query{}); len(all) > 0 || err != nil {
		t.Errorf("after all were taken: %d samples, %v", len(all), err)
	}
}

func TestASampleThatCannotBeDecodedDoesNotEndAll(t *testing.T) {
	r := mixed(t)
	n, bad := int32(0), 0
	for s, err := range r.All(t.Context()) {
		if err != nil {
			isOther(t, err)
			if bad++; s.Info.Position == 0 {
				t.Error("the sample has no position")
			}
			continue
		}
		if s.Value.N != n {
			t.Fatalf("sample %d is %v", n, s.Value)
		}
		if n++; n == 8 {
			break
		}
	}
	if bad != 1 {
		t.Errorf("%d errors, and one sample that cannot be decoded", bad)
	}
}

func TestAListenerHearsOfASampleThatCannotBeDecoded(t *testing.T) {
	heard, bad := make(chan int32, 16), make(chan error, 16)
	mixed(t, dds.Listen(func(s *dds.Sample[position], err error) {
		if err != nil {
			var e *dds.DecodeError
			if errors.As(err, &e) {
				e.Samples[0].Data = []byte(string(e.Samples[0].Data)) // it is valid until this function returns
			}
			bad <- err
			return
		}
		heard <- s.Value.N
	}))
	isOther(t, <-bad)
	for n := range int32(8) {
		if got := <-heard; got != n {
			t.Fatalf("sample %d is %d", n, got)
		}
	}
}
