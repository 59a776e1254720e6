package bench

import (
	"context"
	"errors"
	"testing"
)

func TestCasesTakeTurnsAndOneThatFailedIsNotTriedAgain(t *testing.T) {
	var order string
	failure := errors.New("no")
	make := func(name string, err error) Case[run] {
		return Case[run]{Name: name, Measure: func(context.Context) (run, error) { order += name; return run{Rate: 1}, err }}
	}
	series, err := TakeTurns(t.Context(), 3, []Case[run]{make("a", nil), make("b", failure), make("c", nil)}, nil)
	if err != nil || order != "abcacac" || len(series[0].Runs) != 3 || series[1].Err != failure || series[1].Error != "no" || len(series[1].Runs) != 0 {
		t.Fatal(order, series, err)
	}
}
