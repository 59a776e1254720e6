package dds_test

import (
	"testing"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/qos"
)

// A member that does not know the type carries samples of another system. A member that knows the
// type reads them. Both see the samples that are in the order.
func TestCarriedSamplesAreReadByType(t *testing.T) {
	all := open(t, 2, nil)
	codec, err := dds.XCDR[position](cdr.XCDR1)
	if err != nil {
		t.Fatal(err)
	}
	typed, err := dds.NewTopic(t.Context(), all[0], "positions", codec, dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	r := reader(t, typed, dds.QoS{History: qos.KeepAll()})
	opaque, err := dds.NewTopic(t.Context(), all[1], "positions", dds.EncodedAs(codec.Name(), true), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	mirror, err := opaque.Reader(t.Context(), dds.QoS{History: qos.KeepAll()})
	if err != nil {
		t.Fatal(err)
	}
	o := dds.Origin{Side: "dds", GUID: [16]byte{7}}
	w, err := opaque.WriterFor(t.Context(), dds.QoS{}, o)
	if err != nil {
		t.Fatal(err)
	}
	v := position{Vehicle: 3, N: 1, From: "there"}
	data, err := codec.Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	key := []byte{0, 0, 0, 3}
	for _, n := range []uint64{4, 4, 9} { // the second one has no effect
		if err := w.Carry(t.Context(), dds.Carried{Sequence: n, Source: int64(n)}, dds.Encoded{Key: key, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Carry(t.Context(), dds.Carried{Sequence: 10, Operation: dds.OperationDispose}, dds.Encoded{Key: key}); err != nil {
		t.Fatal(err)
	}
	got := next(t, r, 3)
	if got[0].Value != v || got[0].Info.Source != 4 || got[1].Info.Source != 9 || got[2].Info.Valid || got[2].Value.Vehicle != 3 || got[2].Info.Instance != dds.InstanceDisposed {
		t.Fatalf("read %+v", got)
	}
	for at, last := uint64(0), uint64(0); last < 10; {
		p, err := all[0].Carried(t.Context(), at, func(of func(dds.Origin) (last, ended uint64)) { last, _ = of(o) })
		if err != nil || p.Position <= at || p.Changes == 0 {
			t.Fatalf("%+v, %v", p, err)
		}
		at = p.Position
	}
	for i := range 3 {
		s, err := mirror.Next(t.Context())
		if err != nil || s.Info.Writer != w.ID() || string(s.Value.Key) != string(key) || i < 2 && string(s.Value.Data) != string(data) {
			t.Fatalf("the member without the type read %+v (%v)", s, err)
		}
	}
	found := false
	for _, e := range all[0].Endpoints() {
		found = found || e.ID == w.ID() && e.Origin != nil && *e.Origin == o && e.Topic == "positions" && !e.Reader
	}
	if !found {
		t.Fatalf("the writer is none of %+v", all[0].Endpoints())
	}
}
