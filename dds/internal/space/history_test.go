package space

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

// A state that was captured is that of its position, whatever happens before it is encoded: histories are not copied.
func TestACapturedHistoryStaysAsItIs(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{Durability: qos.TransientLocal, Service: qos.Service{History: qos.KeepLast(4)}})
	set := qos.Set{Durability: qos.TransientLocal, Lifespan: 10 * time.Second}
	by, other := w.writer(1, 1, "t", set), w.writer(2, 1, "t", qos.Set{Durability: qos.TransientLocal})
	for i := range 6 {
		w.write(by, "a", fmt.Sprint("first ", i))
		w.write(other, "b", fmt.Sprint("second ", i))
	}
	capture := w.members[0].Snapshot()
	want, err := w.members[1].Snapshot()() // at once
	w.must(err)
	for i := range 20 { // memory of dropped samples is used again
		w.write(by, "a", fmt.Sprint("later ", i))
	}
	w.now += int64(time.Minute) // samples expire
	w.write(other, "b", "much later")
	w.close(by)
	w.close(other)
	for range 2 {
		got, err := capture()
		w.must(err)
		if !bytes.Equal(got, want) {
			t.Fatal("the captured state has changed")
		}
	}
	joined := &Space{}
	w.must(joined.Restore(want))
	again, err := joined.Snapshot()()
	if err != nil || !bytes.Equal(again, want) {
		t.Fatalf("a restored state is another one: %v", err)
	}
	w.agree()
}

// A history of a hostile member is refused, wherever it is cut, and costs no memory.
func TestAMalformedHistoryIsRefused(t *testing.T) {
	at := func(int) *endpoint { return &endpoint{} }
	all := []kept{{position: 300, writer: &endpoint{}, source: -5, expires: 7, data: []byte("data")}, {position: 301, writer: &endpoint{}, dispose: true, expires: 1 << 62}}
	b := appendHistory(nil, all, func(*endpoint) int { return 200 })
	if got, err := parseHistory(b, at); err != nil || len(got) != 2 || got[0].source != -5 || got[0].expires != 7 || !got[1].dispose || string(got[0].data) != "data" {
		t.Fatalf("%v: %+v", err, got)
	}
	for n := 1; n < len(b); n++ {
		if got, err := parseHistory(b[:n], at); err == nil {
			t.Errorf("%d bytes of %d are %+v", n, len(b), got)
		}
	}
	if _, err := parseHistory(slices.Concat(b, []byte{0}), at); err == nil {
		t.Error("a byte behind the history is ignored")
	}
	if _, err := parseHistory([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3}, at); err == nil {
		t.Error("a history of billions of samples in a few bytes")
	}
}
