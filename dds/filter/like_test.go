package filter

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/squall-go/squall/internal/testutil"
)

// alikes is LIKE as it is defined, character by character.
func alikes(s, pattern string) bool {
	text := []rune(s)
	row := make([]bool, len(text)+1) // which beginnings of the text are like that of the pattern
	row[0] = true
	for _, w := range pattern {
		next := make([]bool, len(row))
		next[0] = row[0] && w == '%'
		for i, c := range text {
			if w == '%' {
				next[i+1] = row[i+1] || next[i]
			} else {
				next[i+1] = row[i] && (w == '_' || w == c)
			}
		}
		row = next
	}
	return row[len(text)]
}

func TestPatternsMatchAsTheyAreDefined(t *testing.T) {
	seed := testutil.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	text := func(of []string, n int) (s string) {
		for range random.IntN(n + 1) {
			s += of[random.IntN(len(of))]
		}
		return s
	}
	long := strings.Repeat("ab", 40) // searched for in another way
	matched := 0
	for range 20_000 {
		s, pattern := text([]string{"a", "b", "é", "ab"}, 12), text([]string{"a", "b", "é", "%", "%", "_", "_"}, 8)
		if random.IntN(20) == 0 {
			s, pattern = text([]string{"a", "b", long}, 6), text([]string{"a", "%", "%", long}, 6)
		}
		p, err := newPattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		want := alikes(s, pattern)
		if p.matches(s) != want {
			t.Fatalf("seed %d: %q is like %q: not %v", seed, s, pattern, want)
		}
		if want {
			matched++
		}
	}
	if matched < 1000 {
		t.Errorf("seed %d: only %d texts were like their patterns", seed, matched)
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add("aXbab", "a_b%b")
	f.Fuzz(func(t *testing.T, s, pattern string) {
		p, err := newPattern(pattern)
		if err != nil || len(s) > 40 || len(pattern) > 20 || !utf8.ValidString(s) || !utf8.ValidString(pattern) {
			p.matches(s)
			return
		}
		if want := alikes(s, pattern); p.matches(s) != want {
			t.Fatalf("%q is like %q: not %v", s, pattern, want)
		}
	})
}

// With the product of both lengths each of these took minutes.
func TestTheTimeOfAPatternGrowsWithTheText(t *testing.T) {
	text := strings.Repeat("a", 8<<20)
	for _, pattern := range []string{
		"%" + strings.Repeat("a", maxBytes-10) + "b",  // the end
		"%" + strings.Repeat("a", maxBytes-10) + "b%", // a long part
		"%" + strings.Repeat("a_", maxWild/2-1) + "b%",
		strings.Repeat("%a", maxBytes/2-10) + "b%",
		strings.Repeat("_", maxBytes-10) + "%b",
	} {
		p, err := newPattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if p.matches(text) {
			t.Errorf("a text of %d times a is like %.20q…", len(text), pattern)
		}
		if !p.matches(text+"b") && strings.HasSuffix(pattern, "b") {
			t.Errorf("a text that ends with b is not like %.20q…", pattern)
		}
	}
}
