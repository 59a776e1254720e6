package space

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

// A state that was captured is that of its position, whatever happens before it is encoded:
// histories are not copied.
func TestACapturedHistoryStaysAsItIs(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepLast(4)}})
	set := qos.Set{Durability: qos.TransientLocal, Lifespan: 10 * time.Second}
	by, other := w.writer(1, 1, "t", set), w.writer(2, 1, "t", qos.Set{Durability: qos.TransientLocal})
	for i := range 6 {
		w.write(by, "a", fmt.Sprint("first ", i))
		w.write(other, "b", fmt.Sprint("second ", i))
	}
	later := capture(w.members[0])
	want, err := capture(w.members[1])() // at once
	w.must(err)
	for i := range 20 { // memory of dropped samples is used again
		w.write(by, "a", fmt.Sprint("later ", i))
	}
	w.now += int64(time.Minute) // samples expire
	w.write(other, "b", "much later")
	w.close(by)
	w.close(other)
	for range 2 {
		got, err := later()
		w.must(err)
		if !bytes.Equal(got, want) {
			t.Fatal("the captured state has changed")
		}
	}
	joined := &Space{}
	w.must(restore(joined, want))
	again, err := capture(joined)()
	if err != nil || !bytes.Equal(again, want) {
		t.Fatalf("a restored state is another one: %v", err)
	}
	w.agree()
}

// A state of a hostile member is refused, wherever it is cut, and costs no memory.
func TestAMalformedHistoryIsRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}})
	by := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient, Lifespan: time.Hour})
	for _, data := range []string{"one", "two", strings.Repeat("three", pieceBytes/2)} { // the last one has a piece of its own
		w.write(by, "k", data)
	}
	w.dispose(by, "k")
	b, err := capture(w.members[0])()
	w.must(err)
	w.must(restore(&Space{}, b))
	for n := 1; n < len(b); n += 1 + n/1000*97 {
		if err := restore(&Space{}, b[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes of %d: %v", n, len(b), err)
		}
	}
	if err := restore(&Space{}, slices.Concat(b, []byte{0})); !errors.Is(err, ErrMalformed) {
		t.Errorf("a byte after the history: %v", err)
	}
	if err := restore(&Space{}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a piece of terabytes in a few bytes: %v", err)
	}
	broken := errors.New("broken")
	if _, err := ReadState(io.MultiReader(bytes.NewReader(b[:len(b)/2]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a connection that breaks: %v", err)
	}
}

// A writer that stands for an origin from now on does not change a state that was captured before.
func TestACapturedHistoryKeepsTheWriterOfAnOrigin(t *testing.T) {
	w := newWorld(t, 2)
	w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}})
	o := Origin{Side: "dds", GUID: [16]byte{1}}
	first := id(1, 1)
	data, err := AppendOpen(nil, w.now, EndpointInfo{ID: first, Topic: "t", Origin: &o, QoS: qos.Set{Durability: qos.Transient}})
	w.must(w.apply(1, data, err))
	w.must(w.sample(Sample{Writer: first, Sequence: 1, Key: []byte("k"), Data: []byte("one")}))
	later := capture(w.members[0])
	want, err := capture(w.members[1])()
	w.must(err)
	w.stand(2, 1, o)
	if got, err := later(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the captured state has changed (%v)", err)
	}
}
