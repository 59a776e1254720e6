package dds

import (
	"strings"
	"testing"
)

// What a sample in CBOR may have is bounded, whatever type its topic has.
func TestSamplesInCBORAreBounded(t *testing.T) {
	type sample struct{ V any }
	c := CBOR[sample]()
	pairs := func(n int) any {
		m := make(map[int]bool, n)
		for i := range n {
			m[i] = true
		}
		return m
	}
	nested := func(n int) any { // with the sample itself and the innermost array
		v := any([]int{})
		for range n - 2 {
			v = []any{v}
		}
		return v
	}
	for _, bound := range []struct {
		name string
		most int
		make func(n int) any
	}{
		{"elements", maxCBORElements, func(n int) any { return make([]bool, n) }},
		{"pairs", maxCBORElements, pairs},
		{"nested", maxCBORNesting, nested},
	} {
		for _, n := range []int{bound.most, bound.most + 1} {
			b, err := c.Append(nil, &sample{bound.make(n)})
			if err != nil {
				t.Fatal(err)
			}
			var v sample
			switch err := c.Decode(b, &v); {
			case n == bound.most && err != nil:
				t.Errorf("%s: %d are too many: %v", bound.name, n, err)
			case n > bound.most && (err == nil || !strings.Contains(err.Error(), "exceeded")):
				t.Errorf("%s: %d are not too many: %v", bound.name, n, err)
			}
		}
	}
}
