package views

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
)

func declared(change func(d *Declaration)) Declaration {
	d := Declaration{Name: "orders", RingBytes: 4096, Window: 4}
	change(&d)
	return d
}

func TestADeclarationReportsEveryFaultAtOnce(t *testing.T) {
	err := Declaration{
		LayoutName: strings.Repeat("p", 300), Members: ids(1, 1), Senders: ids(0, 7), Shards: -1, MinMembers: 65, Mode: 7, RingBytes: 5000, Window: 5,
	}.Validate()
	if err == nil {
		t.Fatal("it is valid")
	}
	for _, part := range []string{
		"name is empty", "layout is 300 bytes", "members [1 1]: ids", "senders [0 7]: ids", "sender 7 is not among", "-1 shards", "at least 65",
		"unknown mode 7", "ring of 5000", "window of 5",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}

func TestCountsThatNoMembersCanMeetAreFaults(t *testing.T) {
	for _, c := range []struct {
		shards, least, most, members int
		fault                        string
	}{
		{0, 0, 0, 0, ""},
		{64, 1, 0, 0, ""},
		{8, 8, 8, 64, ""},
		{3, 2, 1000, 6, ""},
		{1, 0, 0, 1, ""},
		{-1, 0, 0, 0, "-1 shards"},
		{65, 0, 0, 0, "65 shards"},
		{1, -1, 0, 0, "at least -1"},
		{1, 0, -1, 0, "at most -1"},
		{1, 65, 0, 0, "at least 65"},
		{2, 3, 2, 0, "at least 3 members, but at most 2"},
		{8, 9, 0, 0, "more than the 64 members"},
		{3, 2, 0, 5, "more than the 5 that may be in them"},
	} {
		d := declared(func(d *Declaration) { d.Shards, d.MinMembers, d.MaxMembers = c.shards, c.least, c.most })
		for i := range c.members {
			d.Members = append(d.Members, order.NodeID(i+1))
		}
		if err := d.Validate(); (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestDeclarationsAreCheckedTogether(t *testing.T) {
	var decls []Declaration
	for i := range maxDeclarations {
		decls = append(decls, declared(func(d *Declaration) { d.Name, d.Shards = fmt.Sprint(i), MaxSubgroups/maxDeclarations }))
	}
	if err := CheckDeclarations(decls); err != nil {
		t.Error(err)
	}
	for fault, wrong := range map[string][]Declaration{
		"64 subgroups are declared":    append(decls[:63:63], declared(func(*Declaration) {})),
		"257 shards are declared":      append(decls[:62:62], declared(func(d *Declaration) { d.Shards = 9 })),
		`subgroup "3" is declared twi`: append(decls[:5:5], decls[3]),
		`subgroup "orders": window of`: {declared(func(d *Declaration) { d.Window = 3 })},
	} {
		if err := CheckDeclarations(wrong); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", fault, err)
		}
	}
}

// Each field in turn is changed, so that none is forgotten that is added one day.
func TestADifferenceInAnyFieldIsNamed(t *testing.T) {
	group := declared(func(d *Declaration) { d.Members = ids(1, 2) })
	for i := range reflect.TypeFor[Declaration]().NumField() {
		joiner := group
		if reflect.TypeFor[Declaration]().Field(i).Name == "Operations" { // members may differ in it
			continue
		}
		field, name := reflect.ValueOf(&joiner).Elem().Field(i), reflect.TypeFor[Declaration]().Field(i).Tag.Get("json")
		switch field.Kind() {
		case reflect.String:
			field.SetString("other")
		case reflect.Int:
			field.SetInt(field.Int() + 7)
		case reflect.Uint8:
			field.SetUint(1)
		case reflect.Slice:
			field.Set(reflect.ValueOf(ids(8)))
		default:
			t.Fatalf("no way to change %s", name)
		}
		name, _, _ = strings.Cut(name, ",")
		if d := Difference([]Declaration{group}, []Declaration{joiner}); !strings.Contains(d, `"orders"`) || !strings.Contains(d, ": "+name+": ") {
			t.Errorf("%s: %q", name, d)
		}
	}
}

// The longest request to join is a message, whatever JSON makes of the names of operations.
func TestOperationsAreBoundedTogether(t *testing.T) {
	at := func(bytes int) []Declaration {
		var decls []Declaration
		for i := range maxDeclarations {
			decls = append(decls, declared(func(d *Declaration) { d.Name = fmt.Sprint(i) }))
		}
		for i := 0; bytes > 0; i++ {
			n := min(bytes-2, 62)
			decls[i%len(decls)].Operations = append(decls[i%len(decls)].Operations, strings.Repeat("\x01", n))
			bytes -= n + 2
		}
		return decls
	}
	largest := at(MaxOperationBytes)
	if err := CheckDeclarations(largest); err != nil {
		t.Error(err)
	}
	if text, err := json.Marshal(largest); err != nil || len(text) > 900<<10 {
		t.Errorf("%d bytes of JSON, %v", len(text), err)
	}
	if err := CheckDeclarations(at(MaxOperationBytes + 3)); err == nil || !strings.Contains(err.Error(), "at most 131072") {
		t.Error(err)
	}
	for _, name := range []string{"", "\xff"} {
		if err := declared(func(d *Declaration) { d.Operations = []string{name} }).Validate(); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("operation %q: %v", name, err)
		}
	}
}

func TestDeclarationsThatMeanTheSameDoNotDiffer(t *testing.T) {
	group := declared(func(d *Declaration) {
		d.Members, d.Senders, d.Operations = ids(1, 2, 3), ids(2, 3), []string{"put", "put2"}
	})
	joiner := declared(func(d *Declaration) {
		d.Members, d.Senders, d.Shards, d.MinMembers, d.Operations = ids(3, 1, 2), ids(3, 2), 1, 1, []string{"put"}
	})
	if d := Difference([]Declaration{group}, []Declaration{joiner}); d != "" {
		t.Error(d)
	}
	for want, lists := range map[string][2][]Declaration{
		`"orders" is declared by the group only`:  {{group}, nil},
		`"orders" is declared by the joiner only`: {nil, {joiner}},
		`members: the group declares [1 2 3], the joiner []`: {
			{group}, {declared(func(*Declaration) {})},
		},
	} {
		if d := Difference(lists[0], lists[1]); !strings.Contains(d, want) {
			t.Errorf("%q, want %q", d, want)
		}
	}
}
