package member

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// testRing is a member without a group, and what is delivered to it.
type testRing struct {
	t       *testing.T
	p       *backend
	next    squall.Seq
	writers []space.ID
}

const ringOfTests = 1 << 20 // bytes

// The tests run in bubbles of synctest: the keeper looks at what is old while a test waits, and not
// while it is slow.

// newRing makes a ring with topics that have histories of so many samples. Each has a writer, at a
// node of its own or all at node 1.
func newRing(t *testing.T, together bool, depths ...int) *testRing {
	p, err := newBackend(Config{Subgroup: squall.SubgroupConfig{Name: "space", RingBytes: ringOfTests}})
	if err != nil {
		t.Fatal(err)
	}
	r := &testRing{t: t, p: p}
	for i, depth := range depths {
		set := dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(depth)}}
		name, id := fmt.Sprint("topic ", i), space.ID{Process: space.Process{Node: 1, Incarnation: 1}, Number: uint32(i)}
		if !together {
			id.Node += uint64(i)
		}
		r.writers = append(r.writers, id)
		r.deliver(id, must(t)(space.AppendTopic(nil, 1, space.TopicInfo{Name: name, Type: "raw", QoS: set})))
		r.deliver(id, must(t)(space.AppendOpen(nil, 1, space.EndpointInfo{ID: id, Topic: name, QoS: dds.QoS{Durability: qos.Transient}})))
	}
	return r
}

func must(t *testing.T) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// deliver delivers a message of the node of a writer that stays where it is.
func (r *testRing) deliver(by space.ID, data []byte) {
	r.t.Helper()
	r.p.keeper.Offer()
	if r.p.deliver([]squall.Message{{Sender: squall.NodeID(by.Node), View: 1, Seq: r.next, Data: data}}) != 1 {
		r.t.Fatal("the message was not taken")
	}
	r.next++
}

// write delivers samples of a writer.
func (r *testRing) write(writer, n, size int) {
	r.t.Helper()
	for range n {
		r.deliver(r.writers[writer], append(space.AppendSample(nil, 1, &space.Sample{Writer: r.writers[writer], Source: 1}), bytes.Repeat([]byte{'x'}, size)...))
	}
}

// kept is how many of the messages are kept.
func (r *testRing) kept() int {
	if !r.p.Keeps() {
		return 0
	}
	return int(r.next - squall.Seq(r.p.keeper.Kept()))
}

// Histories that are together too long for the ring, each of them short enough, are copied, and do
// not hold the ring besides.
func TestManyTopicsDoNotHoldARingThatIsTooShortForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		depths := make([]int, 40)
		for i := range depths {
			depths[i] = 50
		}
		r := newRing(t, true, depths...)
		r.write(0, 200, 1000)
		if n := r.kept(); n != 50 {
			t.Errorf("%d messages of one topic are kept", n)
		}
		for range 200 {
			for i := range depths {
				r.write(i, 1, 1000)
			}
		}
		if n := r.kept(); n != 0 {
			t.Errorf("%d messages are kept, and none of them is replaced before its room is needed", n)
		}
	})
}

// A sample that no other one replaces is copied when the room is needed, and what came behind it is
// let go with it. Where the topic is slow beside others, it holds no room at all.
func TestASampleThatIsNotReplacedHoldsNoRoomThatIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, true, 3, 1)
		r.write(0, 3, 1000) // the last two are lent
		most := 0
		for range 2000 {
			r.write(1, 1, 1000)
			most = max(most, r.kept())
		}
		if n := r.kept(); most*1000 > ringOfTests/16*11 || most < 100 || n > 2 {
			t.Errorf("%d messages are kept, and %d at most before", n, most)
		}
		for range 10 {
			r.write(0, 1, 1000)
			for range 300 {
				if r.write(1, 1, 1000); r.kept() > 2 {
					t.Fatalf("%d messages are kept", r.kept())
				}
			}
		}
	})
}

// Kept messages of a sender that sends nothing more, and may wait for their room, are let go soon,
// also while another one sends. The ones of a sender that goes on stay.
func TestASenderGetsTheRoomOfKeptMessagesSoon(t *testing.T) {
	for name, beside := range map[string]int{"alone": 0, "next to another one": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRing(t, false, 300, 1)
				pass := func(goesOn int) {
					for range 10 {
						time.Sleep(lookTime / 2)
						r.write(0, goesOn, 1000)
						r.write(1, beside, 100)
						synctest.Wait()
					}
				}
				r.write(0, 400, 1000)
				pass(1)
				if n := r.kept(); n < 300 {
					t.Fatalf("%d messages are kept of a sender that goes on", n)
				}
				pass(0)
				if n := r.kept(); n > 10 {
					t.Errorf("%d messages are kept", n)
				}
			})
		})
	}
}

// A writer lets the loop publish after a share of the ring, while the rest of it is kept, and only
// then.
func TestAWriterCountsWhatItWritesWhileMessagesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, true, 100)
		k := r.p.keeper
		count := func(bytes int, want int64) {
			t.Helper()
			if k.pace(bytes); k.written.Load() != want {
				t.Errorf("%d bytes are counted, want %d", k.written.Load(), want)
			}
		}
		count(k.share, 0)
		r.write(0, 200, 1000)
		count(k.share-1, int64(k.share-1))
		count(1, 0)
		var none *keeper // of a space that keeps nothing
		none.pace(1)
	})
}
