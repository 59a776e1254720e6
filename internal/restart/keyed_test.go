package restart

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/squall-go/squall/views"
)

// A view keeps its key in whatever a disk or a message holds.
func TestRecordsOfViewsKeepTheKey(t *testing.T) {
	v := (&views.View{ID: 5, Cluster: "blue", Members: []views.Member{{ID: 1}}}).WithKey("the key")
	next := Successor{View: v, Restarted: true, Secret: "s"}
	for _, record := range []any{next, Accepted{Ballot{3, 1}, next}, Echo{7, v}, votePart{View: 4, Echo: &Echo{7, v}, Accepted: &Accepted{Ballot{3, 1}, next}}, Message{Verb: Hello, Next: next}} {
		text, err := json.Marshal(record)
		if err != nil || !strings.Contains(string(text), `"key":"the key"`) {
			t.Errorf("%T has no key: %s, %v", record, text, err)
		}
		back := reflect.New(reflect.TypeOf(record))
		if err := json.Unmarshal(text, back.Interface()); err != nil || !reflect.DeepEqual(record, back.Elem().Interface()) {
			t.Errorf("%s came back as %+v, %v", text, back.Elem().Interface(), err)
		}
	}
}
