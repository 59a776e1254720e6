package order

import "testing"

func TestSplitIsTheInverseOfSeq(t *testing.T) {
	for turns := Turns(1); turns <= 7; turns++ {
		for q := Seq(0); q < 100; q++ {
			if i, s := turns.Split(q); turns.Seq(i, s) != q || int(s) >= int(turns) {
				t.Fatalf("S=%d: Split(%d) = %d, %d", turns, q, i, s)
			}
		}
	}
}

// The prefix and the per-sender counts are checked against a model that marks every position by
// hand.
func TestReceivedAndCountBeforeAgainstAModel(t *testing.T) {
	for turns := Turns(1); turns <= 4; turns++ {
		got := make([]Index, turns)
		for n := 0; n < 5*5*5*5; n++ {
			for s, rest := 0, n; s < int(turns); s, rest = s+1, rest/5 {
				got[s] = Index(rest % 5)
			}
			want := Seq(0)
			for {
				i, s := turns.Split(want)
				if i >= got[s] {
					break
				}
				want++
			}
			if have := turns.Received(got); have != want {
				t.Fatalf("S=%d got=%v: Received = %d, want %d", turns, got, have, want)
			}
			for s := SenderRank(0); int(s) < int(turns); s++ {
				count := Index(0)
				for q := Seq(0); q < want; q++ {
					if _, by := turns.Split(q); by == s {
						count++
					}
				}
				if have := turns.CountBefore(want, s); have != count {
					t.Fatalf("S=%d: CountBefore(%d, %d) = %d, want %d", turns, want, s, have, count)
				}
			}
		}
	}
}

func TestVersionsOrderByViewThenSeq(t *testing.T) {
	a, b, c := Version{1, 9}, Version{2, 0}, Version{2, 1}
	if !a.Before(b) || !b.Before(c) || c.Before(a) || a.Before(a) {
		t.Fatal("versions are out of order")
	}
}
