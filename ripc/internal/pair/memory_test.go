package pair

import (
	"bytes"
	"testing"

	"github.com/squall-go/squall/fabric"
)

// A receiver asks before it allocates, takes nothing while it may not, and goes on when there is
// memory again: nothing is lost (RP17).
func TestAReceiverAllocatesNoMoreThanItMay(t *testing.T) {
	const ring, most = 64 << 10, 8 << 10
	for _, direct := range []bool{true, false} {
		a, _, _ := fabric.NewMemory(ControlBytes + ring)
		b, _, _ := fabric.NewMemory(ControlBytes + ring)
		tx, rx := NewSender(a, b, direct), NewReceiver(b, a, direct)
		memory := &budget{left: most}
		rx.Bound(memory)
		var sent, received int
		var queue []*Frame
		take := func() {
			for {
				f, err := rx.Next()
				if err != nil {
					t.Fatal(err)
				}
				if f == nil {
					return
				}
				queue = append(queue, f)
			}
		}
		content := func(k int) []byte { return bytes.Repeat([]byte{byte(k), byte(k >> 8)}, k%7*20) }
		for range 20 {
			for k := 0; ; k++ { // as much as all channels take
				if tx.Put(Message, sent%4, uint64(sent), [][]byte{content(sent)}) != Accepted {
					break
				}
				sent++
				if k%10 == 0 {
					take()
				}
			}
			take()
			if memory.least < 0 || rx.used > Allowance+most {
				t.Fatalf("%d bytes are in use, %d of %d are left", rx.used, memory.left, most)
			}
			for len(queue) > 0 {
				f := queue[0]
				queue = queue[1:]
				if f.ID != uint64(received) || !bytes.Equal(f.Data, content(received)) {
					t.Fatalf("message %d is there where %d was next", f.ID, received)
				}
				rx.Received(f)
				waits := rx.Pending()
				memory.resumed = false
				rx.Free(f)
				if waits && !memory.resumed {
					t.Fatal("a receiver that can go on did not say so")
				}
				received++
				take()
			}
			rx.Publish()
		}
		if received != sent || memory.least >= frameCost {
			t.Errorf("%d of %d messages, at least %d of %d bytes were left", received, sent, memory.least, most)
		}
		if n := rx.Unbound(); n != most-memory.left || n < 0 {
			t.Errorf("%d bytes are in use, %d were taken", n, most-memory.left)
		}
	}
}

// A sender that does not wait for buffer space, and so does not ask for it, finds the room of
// frames that were moved aside (RP4).
func TestRoomOfFramesThatWereMovedIsPublished(t *testing.T) {
	for _, direct := range []bool{true, false} {
		a, _, _ := fabric.NewMemory(ControlBytes + MinRingBytes)
		b, _, _ := fabric.NewMemory(ControlBytes + MinRingBytes)
		tx, rx := NewSender(a, b, direct), NewReceiver(b, a, direct)
		for channel := range 20 {
			sent := 0
			for tx.Put(Message, channel, 0, [][]byte{make([]byte, 100)}) == Accepted {
				sent++
				for f, err := rx.Next(); f != nil || err != nil; f, err = rx.Next() {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if want := int(window(MinRingBytes)) / FrameBytes(100); sent != want {
				t.Errorf("channel %d found room for %d messages, its window has space for %d", channel, sent, want)
			}
		}
	}
}
