//go:build linux

package verbs

import (
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
)

// discarding is a pair that takes everything and does nothing.
type discarding struct {
	device.Pair
	posts int
}

func (d *discarding) Post([]device.Receive, []device.Work) error {
	d.posts++
	return nil
}

// flusher returns a flush of one line and one range, with a receive that is posted again.
func flusher(t testing.TB, pair device.Pair) func() {
	own, _, err := fabric.NewMemory(smallShape.RowBytes)
	must(t, err)
	l := &Link{
		own: own, ownShape: smallShape, peerShape: smallShape, stage: make([]byte, 2*receives*messageBytes), pair: pair, lifeline: noLifeline{},
		pending: fabric.NewPending(smallShape.ControlBytes), inline: 160, mostBytes: 1 << 20,
	}
	return func() {
		l.tx.granted, l.tx.completed = l.tx.sent+receives, l.tx.posted
		l.rx.used++
		l.Push(smallShape.ControlBytes, 1024)
		l.PushLine(fabric.LineBytes)
		if work, err := l.Flush(); !work || err != nil {
			t.Fatalf("%v, %v", work, err)
		}
	}
}

func TestAFlushIsOneCallAndAllocatesNothing(t *testing.T) {
	pair := &discarding{}
	flush := flusher(t, pair)
	flush()
	pair.posts = 0
	const flushes = 100
	if allocations := testing.AllocsPerRun(flushes-1, flush); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
	if pair.posts != flushes {
		t.Errorf("%d calls for %d flushes", pair.posts, flushes)
	}
}

func BenchmarkFlush(b *testing.B) {
	flush := flusher(b, &discarding{})
	b.ReportAllocs()
	for b.Loop() {
		flush()
	}
}
