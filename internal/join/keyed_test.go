package join

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/squall-go/squall/views"
)

// The message that shows a joiner its view has the key of the view.
func TestAMessageKeepsTheKeyOfItsView(t *testing.T) {
	m := showing((&views.View{ID: 5, Cluster: "blue", Members: []views.Member{{ID: 1}}}).WithKey("the key"))
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back Message
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(m, back) || back.View.Key() != "the key" {
		t.Errorf("%s came back as %+v, %v", text, back, err)
	}
}
