package wire

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// steps are the moves of a search in which sources answer as they are told, until it gives up or has made so many.
func steps(s *Search[string], sources func() []string, answers func(string) Verdict, most int) (moves []string) {
	for range most {
		switch m, source, pause := s.Next(sources()); m {
		case Ask:
			moves = append(moves, source)
			s.Came(source, answers(source))
		case Rest:
			moves = append(moves, pause.String())
		case GiveUp:
			return append(moves, "end")
		}
	}
	return moves
}

func TestASearchAsksInRoundsWithPausesThatDouble(t *testing.T) {
	abc := func() []string { return []string{"a", "b", "c"} }
	backoff := Backoff{Pause: 10, Longest: 30}
	for name, c := range map[string]struct {
		rounds  int
		sources func() []string
		answers func(string) Verdict
		want    []string
	}{
		"goes on for ever": {0, abc, func(string) Verdict { return Failed },
			[]string{"a", "b", "c", "10ns", "a", "b", "c", "20ns", "a", "b", "c", "30ns", "a", "b", "c", "30ns"}},
		"gives up after rounds in vain": {2, abc, func(string) Verdict { return Failed },
			[]string{"a", "b", "c", "10ns", "a", "b", "c", "end"}},
		"a busy source is waited for": {1, abc, func(source string) Verdict {
			if source == "b" {
				return Busy
			}
			return Failed
		}, []string{"a", "b", "c", "10ns", "a", "b", "c", "20ns", "a"}},
		"what brings something on begins with the first pause": {1, abc, func(string) Verdict { return Gained },
			[]string{"a", "b", "c", "10ns", "a", "b", "c", "10ns", "a"}},
		"CV5: who refuses is not asked again": {0, abc, func(source string) Verdict {
			if source == "a" {
				return Refused
			}
			return Failed
		}, []string{"a", "b", "c", "10ns", "b", "c", "20ns", "b"}},
		"all refuse": {0, abc, func(string) Verdict { return Refused }, []string{"a", "b", "c", "end"}},
		"no source":  {0, func() []string { return nil }, func(string) Verdict { return Failed }, []string{"end"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Search[string]{Backoff: backoff, Rounds: c.rounds}
			if got := steps(s, c.sources, c.answers, len(c.want)); !slices.Equal(got, c.want) {
				t.Errorf("%v, not %v", got, c.want)
			}
		})
	}
}

// CV5, whatever sources come, go and answer: once in a round, never after a refusal, and pauses within their bounds.
func TestCV5ARandomSearchKeepsItsRules(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &Search[int]{Backoff: Backoff{Pause: time.Millisecond, Longest: time.Second}, Rounds: random.IntN(4)}
		asked, refused := map[int]bool{}, map[int]bool{}
		for range 200 {
			var sources []int
			for n := range 6 {
				if random.IntN(4) > 0 {
					sources = append(sources, n)
				}
			}
			m, source, pause := s.Next(sources)
			if m == GiveUp {
				break
			}
			if m == Rest {
				clear(asked)
				if pause < time.Millisecond || pause > time.Second {
					t.Fatalf("seed %d: a pause of %v", seed, pause)
				}
				continue
			}
			if asked[source] || refused[source] || !slices.Contains(sources, source) {
				t.Fatalf("seed %d: asks %d of %v; in this round %v, refused %v", seed, source, sources, asked, refused)
			}
			asked[source] = true
			v := Verdict(random.IntN(4))
			refused[source] = v == Refused
			s.Came(source, v)
		}
	}
}

// CV4, whatever callers come, prove themselves and leave.
func TestCV4RandomCallersKeepTheirBounds(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		s := Slots{Most: 6 + random.IntN(6), MostNew: 1 + random.IntN(6)} // an address is bounded by its share of the new ones
		var there []uint64
		proved := map[uint64]bool{}
		for id := uint64(1); id < 300; id++ {
			switch random.IntN(4) {
			case 0:
				if len(there) > 0 {
					n := there[random.IntN(len(there))]
					proved[n] = s.Prove(n)
				}
			case 1:
				if len(there) > 0 {
					i := random.IntN(len(there))
					s.Leave(there[i])
					there = slices.Delete(there, i, i+1)
				}
			default:
				evicted, ok := s.Enter(id, fmt.Sprint(random.IntN(3)))
				if proved[evicted] {
					t.Fatalf("seed %d: %d made room, and had proved itself", seed, evicted)
				}
				there = slices.DeleteFunc(there, func(n uint64) bool { return n == evicted })
				if ok {
					there = append(there, id)
				} else if slices.ContainsFunc(there, func(n uint64) bool { return !proved[n] }) {
					t.Fatalf("seed %d: no place, and a caller is new", seed)
				}
			}
			if s.Count() != len(there) || s.Count() > s.Most || s.fresh("") > s.MostNew {
				t.Fatalf("seed %d: %d callers, %d new, of %+v", seed, s.Count(), s.fresh(""), s)
			}
		}
	}
}
