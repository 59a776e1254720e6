package remote

import (
	"errors"
	"reflect"
	"testing"

	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/order"
)

func body(t *testing.T, frame []byte, want Kind) []byte {
	t.Helper()
	k, n, err := ParseHead(frame)
	if err != nil || k != want || n != len(frame)-HeadBytes {
		t.Fatalf("a frame of kind %d with %d bytes: %v", k, n, err)
	}
	return frame[HeadBytes:]
}

func TestFramesComeBack(t *testing.T) {
	b := Batch{
		Gate: GateShut, Position: 9, Lineage: []space.ViewStart{{View: 1, At: 5}, {View: 3, After: 7, At: 6}}, Reached: []Reached{{1, space.Reached{Position: 2, Count: 3}}, {4, space.Reached{Position: 5, Count: 6, Unlisted: true}}},
		Fed: []space.Fed{
			{Reader: 1, Position: 8, Writer: space.ID{Process: space.Process{Node: 2, Incarnation: 3}, Number: 4}, Source: -5, Expires: 6, Key: "k", Data: []byte("data")},
			{Reader: 4, Kind: space.FedDispose, Position: 9, Origin: &space.Origin{Side: "client", GUID: [16]byte{1, 2}}, Key: "", Data: []byte{}},
			{Reader: 4, Kind: space.FedLost, Count: 7, Data: []byte{}},
		},
	}
	var got Batch
	if err := ParseBatch(body(t, AppendBatch(nil, &b), KindBatch), &got); err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("%v:\n%+v\n%+v", err, got, b)
	}
	e := Entry{Sequence: 3, Operation: 2, Set: 1, Source: -1, Key: []byte("k"), Data: []byte("d")}
	writer, back, err := ParseSample(body(t, AppendSample(nil, 5, &e), KindSample))
	if err != nil || writer != 5 || !reflect.DeepEqual(back, e) {
		t.Errorf("%v: %d %+v", err, writer, back)
	}
	come := Come{Ordered: 6, Stored: 5, At: order.Version{View: 2, Seq: 7}}
	number, acked, err := ParseAck(body(t, AppendAck(nil, 5, come), KindAck))
	if err != nil || number != 5 || acked != come {
		t.Errorf("%v: %d %+v", err, number, acked)
	}
	var a Answer
	a.Fail(space.ErrImmutable)
	frame, err := AppendValue(nil, KindAnswer, a)
	var answer Answer
	if err != nil || ParseValue(body(t, frame, KindAnswer), &answer) != nil || !errors.Is(answer.Err(), space.ErrImmutable) || errors.Is(answer.Err(), qos.ErrRefused) {
		t.Errorf("%v: %v", err, answer.Err())
	}
}

// Nothing that a process sends has the other one fail.
func FuzzFrames(f *testing.F) {
	f.Add(AppendBatch(nil, &Batch{Lineage: []space.ViewStart{{View: 1}}, Reached: []Reached{{1, space.Reached{Position: 2, Count: 3}}}, Fed: []space.Fed{{Key: "k", Origin: &space.Origin{Side: "s"}}}})[HeadBytes:])
	f.Add(AppendSample(nil, 5, &Entry{Sequence: 3, Key: []byte("k"), Data: []byte("d")})[HeadBytes:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var batch Batch
		if ParseBatch(b, &batch) == nil {
			var again Batch
			if err := ParseBatch(AppendBatch(nil, &batch)[HeadBytes:], &again); err != nil || !reflect.DeepEqual(batch.Fed, again.Fed) {
				t.Errorf("%v: %+v", err, batch)
			}
		}
		if w, e, err := ParseSample(b); err == nil {
			if v, again, err := ParseSample(AppendSample(nil, w, &e)[HeadBytes:]); err != nil || v != w || !reflect.DeepEqual(e, again) {
				t.Errorf("%v: %+v", err, e)
			}
		}
		_, _, _ = ParseAck(b)
		_ = ParseValue(b, &Request{})
		_ = ParseValue(b, &Answer{})
	})
}
