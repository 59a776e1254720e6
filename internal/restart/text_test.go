package restart

import (
	"encoding/json"
	oldrand "math/rand"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/quick"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/views"
)

// The sum of a message is about the JSON of it, also where that is put together by hand.
func TestTheTextOfAMessageIsItsJSON(t *testing.T) {
	check := func(m Message) bool {
		m.Sum = nil
		want, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got := m.text()
		if string(got) != string(want) {
			t.Errorf("%s, and as JSON %s", got, want)
		}
		return string(got) == string(want)
	}
	for _, name := range []string{"", "a", `quoted "b" \`, "<&>", "tab\t", "ünïcode\u2028", "\xff broken", "del\x7f"} {
		check(Message{Verb: Verb(name), Cluster: name, From: views.Member{ID: 1, Addr: name, Host: name, SHM: name, GaveUp: name}, Key: name, Group: name, Lineage: name, Peers: []string{name, name}, Lacks: []LogID{{Name: name}, {name, 1}}})
	}
	seed := testutil.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 500 {
		var m Message
		v := reflect.ValueOf(&m).Elem()
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; {
			case name == "Next" || name == "Accepted" || name == "Echo": // of views, which have functions of their own
			case random.IntN(2) == 0:
				value, ok := quick.Value(v.Field(i).Type(), oldrand.New(oldrand.NewSource(random.Int64())))
				if !ok {
					t.Fatalf("no value of %s", name)
				}
				v.Field(i).Set(value)
			}
		}
		check(m)
	}
}

// A field that is not written by hand makes a message one that is not plain: no field is left out
// of the sum.
func TestEveryFieldOfAMessageIsInItsText(t *testing.T) {
	var walk func(v reflect.Value, path string, m *Message)
	walk = func(v reflect.Value, path string, m *Message) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" && f.Name != "Sum" {
					walk(v.Field(i), path+"."+f.Name, m)
				}
			}
			return
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Array:
			v.Index(0).SetUint(1)
		case reflect.Int:
			v.SetInt(7)
		default:
			v.SetUint(7)
		}
		if text := string(m.text()); text == string((Message{}).text()) {
			t.Errorf("%s is not in the text %s", path, text)
		}
		v.SetZero()
	}
	var m Message
	walk(reflect.ValueOf(&m).Elem(), "Message", &m)
}
