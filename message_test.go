package squall

import (
	"reflect"
	"testing"

	"github.com/squall-go/squall/internal/multicast"
)

// A run of messages reaches the application without a copy, so the two types must have one layout,
// field by field.
func TestMessagesOfTheCoreAreMessages(t *testing.T) {
	core, ours := reflect.TypeFor[multicast.Message](), reflect.TypeFor[Message]()
	if core.Size() != ours.Size() || core.NumField() != ours.NumField() {
		t.Fatalf("%v has %d fields in %d bytes, %v has %d in %d", core, core.NumField(), core.Size(), ours, ours.NumField(), ours.Size())
	}
	for i := range core.NumField() {
		if a, b := core.Field(i), ours.Field(i); a.Name != b.Name || a.Type != b.Type || a.Offset != b.Offset {
			t.Errorf("field %d is %s %v at %d there, and %s %v at %d here", i, a.Name, a.Type, a.Offset, b.Name, b.Type, b.Offset)
		}
	}
	if body := reflect.TypeFor[Body](); body.NumField() != 1 || body.Field(0).Type != reflect.TypeFor[multicast.Body]() {
		t.Errorf("%v is more than its body", body)
	}
	run := []multicast.Message{{Data: []byte("a"), Sender: 1, View: 2, Seq: 3, Time: 4}, {Data: []byte("b"), Sender: 5}}
	for i, m := range messages(run) {
		if string(m.Data) != string(run[i].Data) || m.Sender != run[i].Sender || m.View != run[i].View || m.Seq != run[i].Seq || m.Time != run[i].Time || m.Body() != nil {
			t.Errorf("message %d is %+v, and was %+v", i, m, run[i])
		}
	}
	if len(messages(nil)) != 0 {
		t.Error("no messages are some")
	}
}
