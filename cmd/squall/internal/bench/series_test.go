package bench

import (
	"context"
	"errors"
	"testing"
)

func TestCasesTakeTurnsAndAFailedOneIsLeftOut(t *testing.T) {
	var order string
	failure := errors.New("no")
	make := func(name string, err error) Case {
		return Case{Name: name, measure: func(context.Context) (Run, error) { order += name; return Run{Rate: 1}, err }}
	}
	series, err := Interleave(t.Context(), 3, []Case{make("a", nil), make("b", failure), make("c", nil)}, nil)
	if err != nil || order != "abcacac" || len(series[0].Runs) != 3 || series[1].Err != failure || len(series[1].Runs) != 0 {
		t.Fatal(order, series, err)
	}
}
