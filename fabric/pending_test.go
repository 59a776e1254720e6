package fabric

import (
	"math/rand/v2"
	"testing"
)

// A ring's pushes: ranges that continue one another, and wrap, and lines again and again, to a peer
// that takes nothing.
func TestWhatIsPendingIsBoundedByTheRow(t *testing.T) {
	const control, ring = 64 * LineBytes, 1 << 16
	p := NewPending(control)
	at := 0
	random := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		n := 1 + random.IntN(500)
		k := min(n, ring-at)
		p.Push(control+at, k)
		if n > k {
			p.Push(control, n-k)
		}
		at = (at + n) % ring
		p.PushLine(random.IntN(64) * LineBytes)
		if len(p.Ranges) > 3 || len(p.Lines) > 64 {
			t.Fatalf("%d ranges, %d lines are pending", len(p.Ranges), len(p.Lines))
		}
	}
}

func TestLinesGoWithTheLastOfTheRanges(t *testing.T) {
	p := NewPending(4 * LineBytes)
	for k := range 5 {
		p.Push(1000*k+4*LineBytes, 10)
	}
	p.PushLine(LineBytes)
	p.PushLine(LineBytes)
	if p.Taken(3); len(p.Ranges) != 2 || len(p.Lines) != 1 {
		t.Fatalf("%v, %v", p.Ranges, p.Lines)
	}
	if p.Taken(2); !p.Empty() {
		t.Fatalf("%v, %v", p.Ranges, p.Lines)
	}
	if p.PushLine(LineBytes); len(p.Lines) != 1 {
		t.Fatal("a line that was taken cannot be pushed again")
	}
}
