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
	g := &Gateway{begun: time.Now(), clock: clock{earlier: make(chan struct{}, 1)}}
	g.machine = protocol.New(protocol.Config{}, (*host)(g), 1)
	return &outbound{g: g, t: &topic{Topic: Topic{Name: "notes", Type: kind, Direction: Out, QoS: set}}, writers: map[dds.ID]*outWriter{}, rest: map[string]*outWriter{}}
}

// The writers that a gateway keeps for their parts of a history, when their writers in the space
// are gone, have a bound. Beyond it the first ones that were gone leave with their samples.
func TestWritersThatAreGoneAreKeptUpToABound(t *testing.T) {
	o := outboundOf(t, dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(1)}})
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
	o := outboundOf(t, dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}})
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

// An instance that has no writers left is unregistered by each writer in DDS that has written it:
// that of a writer in the space, and that for samples whose writers are closed.
func TestAnInstanceWithoutWritersIsUnregisteredByAllThatWroteIt(t *testing.T) {
	o := outboundOf(t, dds.QoS{})
	o.g.ending = t.Context()
	for n := range uint32(3) {
		o.writers[dds.ID{Number: n}] = o.newWriter(&dds.QoS{}, "")
	}
	payload := []byte{0, 1, 0, 0, 7, 0, 0, 0}
	key, err := o.t.Type.payloads.AppendInstance(nil, payload)
	if err != nil {
		t.Fatal(err)
	}
	of := dds.Sample[dds.Encoded]{Value: dds.Encoded{Key: key, Data: payload}, Info: dds.Info{Valid: true}}
	for _, n := range []uint32{0, 1, 9} { // the last one is closed
		of.Info.Writer = dds.ID{Number: n}
		if err := o.write(&of); err != nil {
			t.Fatal(err)
		}
	}
	of.Info.Valid, of.Info.Instance = false, dds.InstanceNoWriters
	for range 2 { // once more is nothing
		if err := o.write(&of); err != nil || o.g.stats.Written != 6 {
			t.Fatalf("3 writers wrote the instance: %d changes with its end, %v", o.g.stats.Written, err)
		}
	}
}
