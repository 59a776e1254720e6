package dds_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

// faulty is a codec that fails at some samples.
type faulty struct{ dds.Codec[position] }

// What a faulty codec does with a sample that comes from one of these.
const fails, panics, lies = "fails", "panics", "lies about the size"

var errFaulty = errors.New("the codec fails")

func (f faulty) Append(dst []byte, v *position) ([]byte, error) {
	switch v.From {
	case fails:
		return dst, errFaulty
	case panics:
		panic("the codec panics")
	case lies:
		dst = append(dst, 0)
	}
	return f.Codec.Append(dst, v)
}

// sizing is a faulty codec whose samples are encoded in their place in the order.
type sizing struct{ faulty }

func (s sizing) Size(v *position) int {
	b, err := s.Codec.Append(nil, v)
	if err != nil {
		panic(err)
	}
	return len(b)
}

// A codec that fails or panics at a sample leaves nothing behind: neither a place in the order,
// which would hold up all samples after it, nor a lock, nor a part of a coherent set. A set without
// samples is no error.
func TestASampleThatCannotBeEncodedLeavesNothing(t *testing.T) {
	all := open(t, 1, nil)
	c := dial(t, nil, serve(t, all[0], member.RelayConfig{}).Addr())
	for _, codec := range []dds.Codec[position]{faulty{dds.CBOR[position]()}, sizing{faulty{dds.CBOR[position]()}}} {
		tp, err := dds.NewTopic(t.Context(), all[0], fmt.Sprintf("%T", codec), codec, dds.QoS{})
		if err != nil {
			t.Fatal(err)
		}
		at, err := dds.NewTopic(t.Context(), c, fmt.Sprintf("%T", codec), codec, dds.QoS{})
		if err != nil {
			t.Fatal(err)
		}
		r := reader(t, tp, dds.QoS{History: qos.KeepAll()})
		for name, p := range map[string]struct {
			coherent func(context.Context, func(*dds.CoherentSet) error) error
			topic    *dds.Topic[position]
		}{"member": {all[0].Coherent, tp}, "client": {c.Coherent, at}} {
			w, n := writer(t, p.topic, inSets), int32(0)
			for _, fault := range []string{fails, panics, lies} {
				if _, measured := codec.(sizing); fault == lies && (!measured || name == "client") {
					continue // nothing depends on the size
				}
				what := fmt.Sprintf("%T at a %s, which %s", codec, name, fault)
				bad := func(write func(position) error) {
					defer func() {
						if panicked := recover() != nil; panicked != (fault == panics) {
							t.Errorf("%s: it panics: %v", what, panicked)
						}
					}()
					if err := write(position{From: fault}); err == nil || errors.Is(err, errFaulty) != (fault == fails) {
						t.Errorf("%s: %v", what, err)
					}
				}
				bad(func(v position) error { return w.Write(t.Context(), v) })
				for range 2 {
					n++
					write(t, w, position{N: n})
				}
				if got := next(t, r, 2); got[1].Value.N != n {
					t.Errorf("%s: the reader has %+v", what, got)
				}
				for _, samples := range []int{0, 1} {
					if err := p.coherent(testutil.Within(t), func(s *dds.CoherentSet) error {
						bad(func(v position) error { return w.WriteIn(t.Context(), s, v) })
						for range samples {
							n++
							if err := w.WriteIn(t.Context(), s, position{N: n}); err != nil {
								return err
							}
						}
						return nil
					}); err != nil {
						t.Errorf("%s: a set of %d samples: %v", what, samples, err)
					}
				}
				if got := next(t, r, 1); got[0].Value.N != n {
					t.Errorf("%s: the reader has %+v of a set", what, got)
				}
			}
		}
	}
}
