package space

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// A sequence is what a slice is, and a view of it stays as it was, whatever happens to the
// sequence.
func TestASequenceIsAQueue(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	content := func(q *sequence[int]) (all []int) {
		for v := range q.each {
			all = append(all, *v)
		}
		return all
	}
	type seen struct {
		view sequence[int]
		want []int
	}
	for range 15 {
		var q sequence[int]
		var want []int
		var views []seen
		next, most := 1, 1+rng.IntN(4*blockLen)
		for range 200 {
			switch rng.IntN(8) {
			case 0, 1, 2:
				for range rng.IntN(most) {
					q.push(next)
					want = append(want, next)
					next++
				}
			case 3, 4:
				n := rng.IntN(len(want) + 1)
				q.drop(n)
				want = want[n:]
			case 5:
				by := 1 + rng.IntN(5)
				was := slices.Clone(want)
				want = slices.DeleteFunc(want, func(v int) bool { return v%by == 0 })
				if n := q.remove(func(i int, v *int) bool {
					if was[i] != *v {
						t.Fatalf("element %d is %d, want %d", i, *v, was[i])
					}
					return *v%by == 0
				}); n != len(was)-len(want) {
					t.Fatalf("%d removed, %d are gone", n, len(was)-len(want))
				}
			case 6:
				if rng.IntN(4) == 0 {
					views = append(views, seen{q.view(), slices.Clone(want)})
				}
			case 7:
				q = q.clone()
			}
			if !slices.Equal(content(&q), want) || q.len() != len(want) {
				t.Fatalf("%d elements are %v, want %v", q.len(), content(&q), want)
			}
			if n := len(want); n > 0 {
				if i := rng.IntN(n); *q.at(i) != want[i] {
					t.Fatalf("element %d is %d, want %d", i, *q.at(i), want[i])
				}
			}
		}
		for _, v := range views {
			if !slices.Equal(content(&v.view), v.want) || v.view.len() != len(v.want) {
				t.Fatalf("a view is %v, and was %v", content(&v.view), v.want)
			}
		}
	}
}

// The memory of a sequence from which as many are taken as come does not grow, and is used again.
func TestASequenceUsesItsMemoryAgain(t *testing.T) {
	var q sequence[int]
	for i := range 3 * blockLen {
		q.push(i)
	}
	if n := testing.AllocsPerRun(10, func() {
		for i := range 8 * blockLen {
			q.push(i)
			q.drop(1)
		}
	}); n > 5 { // the list of the blocks, and none of the 8 blocks
		t.Errorf("%v allocations for 8 blocks", n)
	}
	q.drop(q.len())
	for range 10 {
		for i := range 3 {
			q.push(i)
		}
		q.drop(3)
	}
	if len(q.full) > 0 || cap(q.last) > 2*blockLen {
		t.Errorf("%d full blocks, and one of %d", len(q.full), cap(q.last))
	}
}
