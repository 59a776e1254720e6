package schedule

import (
	"errors"
	"testing"
)

func TestNamesAreReadBack(t *testing.T) {
	for a := Auto; a <= Hybrid; a++ {
		if got, err := Parse(a.String()); err != nil || got != a {
			t.Errorf("%v is read as %v, %v", a, got, err)
		}
	}
	for _, name := range []string{"", "Pipeline", "pipeline ", "algorithm 7"} {
		if a, err := Parse(name); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q is read as %v, %v", name, a, err)
		}
	}
	if got := Algorithm(77).String(); got != "algorithm 77" {
		t.Error(got)
	}
}

// What arrives in an announcement is not trusted: whatever has no plan is refused.
func TestWhatHasNoPlanIsRefused(t *testing.T) {
	for _, c := range []struct {
		a             Algorithm
		nodes, blocks int
		racks         []string
		want          error
	}{
		{Hybrid + 1, 4, 4, nil, ErrUnknown}, {255, 4, 4, nil, ErrUnknown}, {Pipeline, 0, 4, nil, ErrSize}, {Pipeline, -1, 4, nil, ErrSize},
		{Pipeline, MaxNodes + 1, 4, nil, ErrSize}, {Chain, 4, 0, nil, ErrSize}, {Chain, 4, MaxBlocks + 1, nil, ErrSize},
		{Hybrid, 4, 4, []string{"a", "b"}, ErrSize}, {Chain, 4, 4, []string{"a", "b"}, ErrSize},
		{Pipeline, MaxNodes, MaxBlocks, nil, nil}, {Sequential, MaxNodes, MaxBlocks, nil, nil}, {Hybrid, 4, 4, []string{}, nil},
	} {
		p, err := New(c.a, c.nodes, c.blocks, c.racks)
		if !errors.Is(err, c.want) || (p == nil) != (err != nil) {
			t.Errorf("%v of %d blocks to %d nodes: %v, want %v", c.a, c.blocks, c.nodes, err, c.want)
		}
	}
}

func TestAutoIsThePipelineOrTheHybrid(t *testing.T) {
	for _, c := range []struct {
		racks []string
		want  Algorithm
	}{
		{nil, Pipeline}, {[]string{"a", "a", "a", "a"}, Pipeline}, {[]string{"a", "b", "c", "d"}, Pipeline}, {[]string{"a", "b", "c", "a"}, Hybrid},
	} {
		if got := mustNew(t, Auto, 4, 4, c.racks).Algorithm(); got != c.want {
			t.Errorf("%q: %v, want %v", c.racks, got, c.want)
		}
	}
}
