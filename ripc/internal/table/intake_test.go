package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// body is one of a long message in a world of intakes.
type body struct {
	want    Want
	service int
	verdict Verdict
	window  int
}

// intakes are two services with one budget.
type intakes struct {
	*rand.Rand
	budget   Budget
	services [2]Intake[int]
	waiting  [2][]*body
	placed   []*body
	sizes    []int64 // of the windows that were posted, by number
}

// place places a body, or lets it wait.
func (w *intakes) place(b *body) {
	b.verdict, b.window = w.services[b.service].Place(b.want, &w.budget)
	switch b.verdict {
	case Waits, Asked:
		w.waiting[b.service] = append(w.waiting[b.service], b)
	case InPlace, Posted, Made:
		w.placed = append(w.placed, b)
	}
}

func (w *intakes) placeAll(service int) {
	waiting := w.waiting[service]
	w.waiting[service] = nil
	for _, b := range waiting {
		w.place(b)
	}
}

// release gives back what a body has. Its window is posted again now and then.
func (w *intakes) release(k int) {
	b := w.placed[k]
	w.placed = slices.Delete(w.placed, k, k+1)
	s := &w.services[b.service]
	if b.verdict == Posted {
		if s.HandBack(b.want.Account) {
			w.placeAll(b.service)
		}
		if w.IntN(2) == 0 {
			s.Repost(b.window, w.sizes[b.window])
			w.placeAll(b.service)
		}
		return
	}
	s.Refund(b.want.Account, b.want.Size, &w.budget)
	w.placeAll(b.service)
	if w.budget.Short() {
		for service := range w.services {
			w.placeAll(service)
		}
	}
}

func (w *intakes) step() {
	service := w.IntN(len(w.services))
	s := &w.services[service]
	switch op := w.IntN(10); {
	case op == 0:
		most := w.Int64N(100)
		s.Follow(Rules{InPlace: w.IntN(2) == 0, MaxBytes: most, MaxPartyBytes: w.Int64N(most + 1), MaxPartyWindows: w.IntN(3),
			Asks: w.IntN(4) == 0, Refuses: w.IntN(4) == 0})
		w.placeAll(service)
	case op < 3:
		s.Open()
		w.sizes = append(w.sizes, 1+w.Int64N(60))
		s.Post(len(w.sizes)-1, w.sizes[len(w.sizes)-1])
		w.placeAll(service)
	case op < 7:
		w.place(&body{service: service, want: Want{Size: 1 + w.Int64N(60), Account: string(rune('a' + w.IntN(3))), Shown: w.IntN(2) == 0}})
	case len(w.placed) > 0:
		w.release(w.IntN(len(w.placed)))
	}
}

// check looks at what holds between any two steps. Limits may have been lowered below what is taken
// already, so they are compared when something is taken: no body has more than the limits of then.
func (w *intakes) check() error {
	used, inUse := int64(0), map[int]bool{}
	var bytes [2]int64
	for _, b := range w.placed {
		if b.verdict == Posted {
			if inUse[b.window] || w.sizes[b.window] < b.want.Size {
				return fmt.Errorf("EP10: window %d of %d bytes for a body of %d, in use %v", b.window, w.sizes[b.window], b.want.Size, inUse[b.window])
			}
			inUse[b.window] = true
			continue
		}
		used += b.want.Size
		bytes[b.service] += b.want.Size
	}
	if used != w.budget.used || used > w.budget.Max || bytes != [2]int64{w.services[0].bytes, w.services[1].bytes} {
		return fmt.Errorf("EP9: %d bytes are counted, %d are in use, of %d; by service %v", w.budget.used, used, w.budget.Max, bytes)
	}
	for service, list := range w.waiting {
		s := &w.services[service]
		for _, b := range list {
			if s.find(b.want) >= 0 {
				return fmt.Errorf("EP11: a body of %d bytes waits, and there is a window", b.want.Size)
			}
			free := min(w.budget.Max-used, s.rules.MaxBytes-s.bytes, s.rules.MaxPartyBytes-s.ofOne[b.want.Account])
			if !s.rules.Asks && b.want.Size <= free {
				return fmt.Errorf("EP11: a body of %d bytes waits, and %d bytes are free", b.want.Size, free)
			}
		}
	}
	return nil
}

func runIntakes(seed uint64) error {
	w := &intakes{Rand: rand.New(rand.NewPCG(seed, 4))}
	w.budget.Max = 50 + w.Int64N(100)
	for step := range 300 {
		w.step()
		if err := w.check(); err != nil {
			return fmt.Errorf("seed %d, step %d: %w", seed, step, err)
		}
	}
	return nil
}

// Bodies have what is counted for them, and none waits for a place that there is (EP9 to EP11).
func TestNoBodyWaitsForAPlaceThatThereIs(t *testing.T) {
	for seed := range testutil.Seeds[uint64](300, 20000) {
		if err := runIntakes(seed); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAServiceThatIsNotOpenTakesNoBody(t *testing.T) {
	b := Budget{Max: 100}
	var i Intake[int]
	if v, _ := i.Place(Want{Size: 1}, &b); v != NoLong {
		t.Error(v)
	}
	i.Open()
	if v, _ := i.Place(Want{Size: 1}, &b); v != Waits {
		t.Error(v)
	}
	i.Follow(Rules{MaxBytes: 10, MaxPartyBytes: 5, Refuses: true})
	for _, c := range []struct {
		size int64
		want Verdict
	}{{6, TooLarge}, {5, Made}, {5, NoWindow}} {
		if v, _ := i.Place(Want{Size: c.size, Account: "a"}, &b); v != c.want {
			t.Errorf("%d bytes: %d, want %d", c.size, v, c.want)
		}
	}
}
