package viewchange

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

func ranks(r ...order.Rank) []order.Rank { return r }

// Every record that holds a view, on the wire or on a disk, brings its key back, and the JSON and
// the text of a view have none.
func TestAKeyIsInRecordsAndNowhereElse(t *testing.T) {
	v := (&views.View{ID: 3, Cluster: "c", Members: []views.Member{{ID: 1}}}).WithKey("the key")
	for _, record := range []any{proposal{View: v, Left: ranks(0)}, Decision{View: v, Ballot: 7}, (*Keyed)(v)} {
		text, err := json.Marshal(record)
		if err != nil || !strings.Contains(string(text), `"key":"the key"`) {
			t.Errorf("%T has no key: %s, %v", record, text, err)
		}
		back := reflect.New(reflect.TypeOf(record))
		if k, is := record.(*Keyed); is {
			back, record = reflect.New(reflect.TypeOf(*k)), *k
		}
		if err := json.Unmarshal(text, back.Interface()); err != nil || !reflect.DeepEqual(record, back.Elem().Interface()) {
			t.Errorf("%s came back as %#v, %v", text, back.Elem().Interface(), err)
		}
	}
	public, _ := json.Marshal(struct{ View *views.View }{v})
	shown := string(public) + fmt.Sprintf("%v %+v %#v %s %d %x %+v", *v, *v, *v, v, v, v, struct{ View *views.View }{v})
	if strings.Contains(shown, "the key") || strings.Contains(shown, fmt.Sprintf("%x", "the key")) {
		t.Errorf("the key is shown: %s", shown)
	}
	if f, exported := reflect.TypeFor[views.View]().FieldByName("Key"); exported {
		t.Errorf("the key is an exported field: %v", f)
	}
}

// FuzzView takes any text for a view: what Validate accepts can be used, and is the same after it
// travelled.
func FuzzView(f *testing.F) {
	f.Add([]byte(`{"id":1,"members":[{"id":5,"incarnation":9}],"subgroups":[{"name":"a","members":[0],"senders":[],"ring_bytes":4096,"window":4}]}`))
	f.Add([]byte(`{"id":2,"members":[{"id":5},{"id":6}],"subgroups":[
		{"name":"a","members":[0],"senders":[0],"ring_bytes":4096,"window":4},
		{"name":"a","shard":1,"members":null,"ring_bytes":4096,"window":4},
		{"name":"b","members":[1],"senders":[1],"mode":1,"ring_bytes":8192,"window":8}]}`))
	f.Add([]byte(`{"id":3,"members":[{"id":5}],"subgroups":[],"muted":[3]}`))
	f.Add([]byte(`{"id":3,"members":[{"id":5}],"subgroups":[],"muted":[]}`))
	f.Add([]byte(`{"id":1,"members":[{"id":5}],"subgroups":[{"name":"a","shard":-1,"members":[-1],"senders":[99]},{"name":"a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var keyed Keyed
		if json.Unmarshal(data, &keyed) != nil {
			return
		}
		v := views.View(keyed)
		if v.Validate() != nil {
			return
		}
		total := 0
		for _, sg := range v.Subgroups {
			shards := v.Shards(sg.Name)
			if shards[sg.Shard].Shard != sg.Shard || sg.Provisioned() != (len(sg.Members) > 0) {
				t.Errorf("%+v among %+v", sg, shards)
			}
			if sg.Shard == 0 {
				total += len(shards)
			}
		}
		if total != len(v.Subgroups) {
			t.Errorf("%d shards, %d subgroups", total, len(v.Subgroups))
		}
		_ = v.Fits([]views.Declaration{{Name: "a"}})
		again, _ := json.Marshal(&keyed)
		var back Keyed
		if err := json.Unmarshal(again, &back); err != nil || !reflect.DeepEqual(keyed, back) {
			t.Errorf("%s became %s: %v", data, again, err)
		}
	})
}
