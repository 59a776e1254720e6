package member_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// loadOrder has the pairs of words of one row of which a reader must load the first before the
// second: their owner stores the second before the first, and what the first says rests on it. No
// other order of loads matters.
var loadOrder = []struct{ first, second, why string }{
	{"skipped", "sent", "N5: no index below skipped is a message, unless sent covers it"},
	{"sent", "position", "S3: the records that sent covers end before position"},
	{"persisted", "whole", "M11: what is persisted follows what came before the view"},
	{"persisted", "delivered", "M11: what is persisted was delivered"},
	{"delivered", "received", "M1: what was delivered was received"},
	{"heartbeat", "wall", "B10: a member that beats told its wall clock"},
	{"clock", "sent", "B9: what has an earlier time was sent"},
	{"suspected", "installed", "V13: who suspects too many is done with the view"},
	{"installed", "decided", "V6: what is final was decided"},
	{"acked", "decided", "V8: who acked a ballot echoed the earlier ones before"},
}

// D4: a row that is frozen is copied from its start, while its owner goes on. So what is loaded
// first lies first.
func TestD4WhatIsLoadedFirstLiesFirst(t *testing.T) {
	one := []order.Rank{0}
	v := &views.View{ID: 1, Members: []views.Member{{ID: 1}}, Subgroups: []views.Subgroup{
		{Name: "a", Mode: views.Persistent, RingBytes: 4096, Window: 8, Members: one, Senders: one},
	}}
	layout, err := member.NewLayout(v)
	if err != nil {
		t.Fatal(err)
	}
	row, _, err := fabric.NewMemory(layout.Shape(0).RowBytes)
	if err != nil {
		t.Fatal(err)
	}
	table, err := sst.NewTable(layout.Layout, fabric.NewTable(0, row, make([]fabric.Link, 1), nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	var dump bytes.Buffer
	if err := table.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	places := map[string]int{}
	for i, line := range strings.Split(dump.String(), "{")[1:] {
		words, _, _ := strings.Cut(line, "}")
		for k, word := range strings.Fields(words) {
			name, _, _ := strings.Cut(word, "=")
			places[name] = i*fabric.WordsPerLine + k + 1
		}
	}
	for _, pair := range loadOrder {
		first, second := places[pair.first], places[pair.second]
		if first == 0 || second == 0 || first > second {
			t.Errorf("%s is loaded before %s (%s), and lies at %d, the other one at %d (0: nowhere)", pair.first, pair.second, pair.why, first, second)
		}
	}
}
