package background

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAHandHasDoneItsWorkWhenDoReturns(t *testing.T) {
	var h Hand
	n := 0
	for i := range 1000 {
		h.Do(func() { n++ })
		if n != i+1 {
			t.Fatalf("%d of %d are done", n, i+1)
		}
	}
	h.Close()
	var idle Hand
	idle.Close()
}
