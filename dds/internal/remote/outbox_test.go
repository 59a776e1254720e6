package remote

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

const memory = 10 * time.Minute

// A writer's connections fail at any moment, with samples and acknowledgements on their way. The
// order has each sample once, in the writer's order.
func TestEachSampleOfAnOutboxIsInTheOrderOnce(t *testing.T) {
	for lap := range testutil.Seeds(20, 50) {
		seed := testutil.Seed(t) + uint64(lap)
		t.Run(fmt.Sprintf("lap=%d", lap), func(t *testing.T) {
			t.Logf("seed %#x", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			var (
				o     Outbox
				order []uint64   // what takes effect
				ways  [][]uint64 // of each connection, what has not come into the order yet
				last  uint64
			)
			ways = append(ways, nil)
			arrive := func(way int) {
				if len(ways[way]) == 0 {
					return
				}
				n := ways[way][0]
				ways[way] = ways[way][1:]
				if n > last { // the space drops the others
					order, last = append(order, n), n
				}
			}
			for range 1000 {
				switch rng.IntN(8) {
				case 0, 1, 2:
					o.Put(Entry{Data: make([]byte, rng.IntN(100))})
				case 3, 4:
					for _, e := range o.Next(rng.IntN(200)) {
						ways[len(ways)-1] = append(ways[len(ways)-1], e.Sequence)
					}
				case 5:
					arrive(rng.IntN(len(ways))) // old connections have samples on their way into the order, too
				case 6:
					o.Acknowledge(rng.Uint64N(last + 1))
				case 7:
					if rng.IntN(4) == 0 {
						way := &ways[len(ways)-1]
						*way = (*way)[:rng.IntN(len(*way)+1)] // the end did not come
						ways = append(ways, nil)
						if err := o.Resume(last, last, 0, memory); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if err := o.Resume(last, last, 0, memory); err != nil {
				t.Fatal(err)
			}
			for _, e := range o.Next(1 << 20) {
				ways[len(ways)-1] = append(ways[len(ways)-1], e.Sequence)
			}
			for len(ways[len(ways)-1]) > 0 {
				arrive(len(ways) - 1)
			}
			if uint64(len(order)) != o.Last() {
				t.Fatalf("%d samples of %d are in the order", len(order), o.Last())
			}
			if o.Acknowledge(o.Last()); o.Bytes() != 0 || o.Acknowledged() != o.Last() {
				t.Fatalf("%d bytes wait, number %d is acknowledged", o.Bytes(), o.Acknowledged())
			}
		})
	}
}

// If the members cannot tell which samples they have, nothing is sent again.
func TestAForgottenWriterSendsNothingAgain(t *testing.T) {
	for _, c := range []struct {
		what  string
		acked uint64
		last  uint64
		away  time.Duration
		fails bool
	}{
		{"nothing happened", 0, 0, 0, false},
		{"all are there", 2, 3, time.Hour, false},
		{"the members have forgotten what they acknowledged", 2, 0, time.Second, true},
		{"the members have less than they acknowledged", 2, 1, time.Second, true},
		{"the members have more than was written", 0, 4, time.Second, true},
		{"nothing was acknowledged, and the members may have forgotten", 0, 0, memory, true},
	} {
		var o Outbox
		for range 3 {
			o.Put(Entry{})
		}
		o.Next(1 << 10)
		o.Acknowledge(c.acked)
		err := o.Resume(c.last, c.last, c.away, memory)
		if errors.Is(err, ErrForgotten) != c.fails {
			t.Errorf("%s: %v", c.what, err)
		}
		if err == nil && len(o.Next(1<<10)) != int(3-c.last) {
			t.Errorf("%s: the wrong samples are sent again", c.what)
		}
	}
}

// What the order has and the disks have not, is not sent again to another relay, and not
// acknowledged either.
func TestAnOutboxWaitsForDisksAlsoAtAnotherRelay(t *testing.T) {
	var o Outbox
	for range 3 {
		o.Put(Entry{})
	}
	o.Next(1 << 10)
	o.Acknowledge(1)
	if err := o.Resume(2, 0, 0, memory); err != nil {
		t.Fatal(err)
	}
	if o.Acknowledged() != 1 {
		t.Errorf("number %d is acknowledged", o.Acknowledged())
	}
	if again := o.Next(1 << 10); len(again) != 1 || again[0].Sequence != 3 {
		t.Errorf("sent again: %+v", again)
	}
	// The members have lost what was not on their disks.
	if err := o.Resume(1, 1, 0, memory); err != nil {
		t.Fatal(err)
	}
	if again := o.Next(1 << 10); len(again) != 2 || again[0].Sequence != 2 {
		t.Errorf("sent again: %+v", again)
	}
	if o.Acknowledge(3); o.Acknowledged() != 3 || o.Bytes() != 0 {
		t.Errorf("number %d is acknowledged, %d bytes wait", o.Acknowledged(), o.Bytes())
	}
}
