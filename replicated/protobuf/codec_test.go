package protobuf_test

import (
	"errors"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/replicated/protobuf"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type (
	text = wrapperspb.StringValue
	sum  = wrapperspb.Int64Value
)

var lengthen = replicated.NewCommand[*text, *sum]("lengthen").Encoded(protobuf.Codec[*text](), protobuf.Codec[*sum]())

func TestMessagesAreArgumentsAndReplies(t *testing.T) {
	type state struct{ N int64 }
	o := member.New(squall.SubgroupConfig{Name: "lengths"}, func() *state { return &state{} },
		member.Handle(lengthen, func(s *state, _ *member.Context, m *text) (*sum, error) {
			if m.Value == "" {
				return nil, errors.New("nothing")
			}
			s.N += int64(len(m.Value))
			return &sum{Value: s.N}, nil
		}))
	g, err := member.Open(t.Context(), squall.Config{Cluster: "test", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(t.Context()) })
	for i, want := range []int64{5, 10, 15} {
		if got, err := lengthen.Call(t.Context(), o, &text{Value: "hello"}); err != nil || got.Value != want {
			t.Errorf("call %d: %v, %v", i, got, err)
		}
	}
	var failed *replicated.HandlerError
	if _, err := lengthen.Call(t.Context(), o, &text{}); !errors.As(err, &failed) || failed.Text != "nothing" {
		t.Errorf("an error of a handler: %v", err)
	}
}

func TestTheSizeIsThatOfTheEncoding(t *testing.T) {
	c := protobuf.Codec[*structpb.Struct]()
	m, err := structpb.NewStruct(map[string]any{"b": 1, "a": []any{"x", true}, "c": nil})
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Append([]byte("head"), &m)
	if err != nil || len(first) != len("head")+c.(replicated.Sizer[*structpb.Struct]).Size(&m) || string(first[:4]) != "head" {
		t.Fatalf("%q, %v", first, err)
	}
	for range 20 { // the order of the map does not show
		if again, err := c.Append([]byte("head"), &m); err != nil || string(again) != string(first) {
			t.Fatalf("%q, %v", again, err)
		}
	}
	var back *structpb.Struct
	if err := c.Decode(first[4:], &back); err != nil || !proto.Equal(back, m) {
		t.Errorf("%v, %v", back, err)
	}
	if err := c.Decode([]byte{0xff}, &back); err == nil {
		t.Error("bytes that are no message are decoded")
	}
}

func TestACopyIsWhatTheEncodingSays(t *testing.T) {
	c := protobuf.Codec[*structpb.ListValue]()
	for _, m := range []*structpb.ListValue{nil, {}, {Values: []*structpb.Value{structpb.NewStringValue("x"), nil}}} {
		data, err := c.Append(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		var want *structpb.ListValue
		if err := c.Decode(data, &want); err != nil {
			t.Fatal(err)
		}
		got := c.(replicated.Copier[*structpb.ListValue]).Copy(m)
		if got == nil || !proto.Equal(got, want) {
			t.Errorf("the copy of %v is %v, its encoding says %v", m, got, want)
		}
		if len(m.GetValues()) > 0 && got.Values[0] == m.Values[0] {
			t.Error("the copy shares memory")
		}
	}
}

// A newer program sends a field that this one does not know.
func TestUnknownFieldsAreKept(t *testing.T) {
	c := protobuf.Codec[*text]()
	data := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "known")
	data = protowire.AppendVarint(protowire.AppendTag(data, 99, protowire.VarintType), 7)
	var m *text
	if err := c.Decode(data, &m); err != nil || m.Value != "known" {
		t.Fatalf("%v, %v", m, err)
	}
	if again, err := c.Append(nil, &m); err != nil || string(again) != string(data) {
		t.Errorf("%q, %v; want %q", again, err, data)
	}
}

// quick is a message with what vtprotobuf generates.
type quick struct {
	*text
	calls *int
}

func (q quick) SizeVT() int { *q.calls++; return len(q.Value) }
func (q quick) MarshalToSizedBufferVT(b []byte) (int, error) {
	*q.calls++
	return copy(b, q.Value), nil
}
func (q quick) UnmarshalVT([]byte) error { return errors.New("not used") }

func TestMethodsOfVtprotobufAreUsed(t *testing.T) {
	calls := 0
	q := &quick{&text{Value: "direct"}, &calls}
	c := protobuf.Codec[*quick]()
	for _, room := range []int{0, 64} {
		if b, err := c.Append(append(make([]byte, 0, room), 'x'), &q); err != nil || string(b) != "xdirect" {
			t.Errorf("%q, %v", b, err)
		}
	}
	if calls != 4 {
		t.Errorf("%d calls", calls)
	}
}
