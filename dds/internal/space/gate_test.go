package space

import (
	"bytes"
	"math"
	"testing"

	"github.com/squall-go/squall/dds/qos"
)

// A reader of a client that is stopped shows what it had, and takes what comes meanwhile, an
// interrupted list of instances too, when it goes on.
func TestAReaderThatIsStoppedShowsWhatItHad(t *testing.T) {
	coherent := qos.Set{History: qos.KeepAll(), Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: true}}
	w := newWorld(t, 1)
	w.members[0].KeepTail(1 << 20)
	w.topic("t", qos.Set{})
	o := newOutside(w, 0, qos.Set{}, coherent)
	ready := 0
	o.cache.Ready = func() { ready++ }
	feed := func(f Fed) {
		f.Position, f.Expires, f.Writer = o.s.position+1, math.MaxInt64, id(1, 1)
		o.s.Feed(w.now, o.id, &f)
		for i := range f.Data { // the memory is used again
			f.Data[i] = 'x'
		}
	}
	sample := func(key, data string) { feed(Fed{Key: key, Data: []byte(data)}) }
	sample("a", "1")
	sample("b", "2")
	o.s.Gate(true)
	o.cache.Await()
	sample("a", "3")
	feed(Fed{Kind: FedLost, Count: 5})
	feed(Fed{Kind: FedPresent, Key: "a"})
	o.s.Interrupt(o.id)
	feed(Fed{Kind: FedPresent, Key: "b"})
	feed(Fed{Kind: FedAbsent})
	sample("b", "4")
	if w.takes(o.cache, Query{}, "a=1 b=2"); o.lost != 0 || ready != 0 {
		t.Errorf("the reader is stopped, and has lost %d samples and was ready %d times", o.lost, ready)
	}
	o.s.Gate(true)
	w.takes(o.cache, Query{}, "")
	o.s.Gate(false)
	w.takes(o.cache, Query{}, "a=3 a? b=4")
	if o.lost != 5 || ready != 1 {
		t.Errorf("the reader goes on, and has lost %d samples and was ready %d times", o.lost, ready)
	}
	sample("a", "5")
	feed(Fed{Kind: FedPresent, Key: "a"}) // the next list
	feed(Fed{Kind: FedAbsent})
	w.takes(o.cache, Query{}, "a=5 b?")
}

// What comes while a reader is stopped is bounded: beyond the bound the reader shows it, each set
// as a whole.
func TestWhatComesForAReaderThatIsStoppedIsBounded(t *testing.T) {
	coherent := qos.Set{History: qos.KeepAll(), Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: true}}
	w := newWorld(t, 1)
	w.members[0].KeepTail(1 << 20)
	w.topic("t", qos.Set{})
	o := newOutside(w, 0, qos.Set{}, coherent)
	o.s.Gate(true)
	const size, each = 1 << 20, 4
	position := o.s.position
	set := func() { // of samples with one position
		position++
		for range each {
			o.s.Feed(w.now, o.id, &Fed{Key: "a", Data: bytes.Repeat([]byte{1}, size), Position: position, Expires: math.MaxInt64, Writer: id(1, 1)})
		}
	}
	for range maxPostponedBytes / size / each {
		set()
	}
	if n := len(o.cache.Select(Query{Take: true})); n != 0 {
		t.Fatalf("the reader is stopped, and shows %d samples", n)
	}
	set()
	if n := len(o.cache.Select(Query{Take: true})); n != maxPostponedBytes/size {
		t.Fatalf("at the bound the reader shows %d samples of %d", n, maxPostponedBytes/size)
	}
	if n := len(o.cache.postponed); n != each || o.cache.postponedBytes < each*size || o.cache.postponedBytes > maxPostponedBytes {
		t.Fatalf("%d samples with %d bytes are postponed", n, o.cache.postponedBytes)
	}
	o.s.Gate(false)
	if n := len(o.cache.Select(Query{Take: true})); n != each || o.cache.postponedBytes != 0 {
		t.Fatalf("the reader goes on, and shows %d samples", n)
	}
}
