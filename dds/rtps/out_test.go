package rtps

import (
	"testing"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/protocol"
)

// noted is the type of the topics here.
type noted struct {
	Author int32 `dds:"key"`
}

func outboundOf(t *testing.T, set dds.QoS) *outbound {
	t.Helper()
	kind, err := TypeOf[noted]()
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{begun: time.Now(), turn: make(chan struct{}, 1)}
	g.machine = protocol.New(protocol.Config{}, (*host)(g), 1)
	return &outbound{g: g, t: &topic{Topic: Topic{Name: "notes", Type: kind, Direction: Out, QoS: set}}, writers: map[dds.ID]*outWriter{}, rest: map[string]*outWriter{}}
}

// The writers that a gateway keeps for their parts of a history, when their writers in the space
// are gone, have a bound. Beyond it the first ones that were gone leave with their samples.
func TestWritersThatAreGoneAreKeptUpToABound(t *testing.T) {
	o := outboundOf(t, dds.QoS{Durability: qos.Transient, Service: qos.Service{History: qos.KeepLast(1)}})
	add := func(n uint32) {
		w := o.newWriter(&dds.QoS{}, "")
		w.w.Write(protocol.Change{Key: string([]byte{byte(n), byte(n >> 8)})})
		o.writers[dds.ID{Number: n}] = w
	}
	there := func(n uint32) bool { return o.writers[dds.ID{Number: n}] != nil }
	for n := range uint32(maxRetired) {
		add(n)
		o.writers[dds.ID{Number: n}].gone = time.Unix(int64(n)+1, 0)
	}
	add(maxRetired) // it is not gone yet
	o.retire(nil, false)
	if len(o.writers) != maxRetired+1 {
		t.Fatalf("%d writers are kept, of %d", len(o.writers)-1, maxRetired)
	}
	o.retire(nil, true)
	if len(o.writers) != maxRetired || there(0) || !there(1) || !there(maxRetired) {
		t.Fatalf("%d writers are kept, of %d at most; of the first one: %v, of the last one: %v", len(o.writers), maxRetired, there(0), there(maxRetired))
	}
}

// A history that keeps everything, without a limit of its own, has one at a gateway: of samples,
// whichever of the writers wrote them.
func TestAHistoryOfEverythingIsBounded(t *testing.T) {
	o := outboundOf(t, dds.QoS{Durability: qos.Transient, Service: qos.Service{History: qos.KeepAll()}})
	first, second := o.newWriter(&dds.QoS{}, ""), o.newWriter(&dds.QoS{}, "")
	first.w.Write(protocol.Change{Key: "k"})
	for n := range historySamples {
		if !first.w.Lasts() {
			t.Fatalf("the history of %d samples has dropped one", n)
		}
		second.w.Write(protocol.Change{Key: "k"})
	}
	if first.w.Lasts() {
		t.Errorf("the history has %d samples, of %d at most", historySamples+1, historySamples)
	}
}
