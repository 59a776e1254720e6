package invariants

import (
	"strings"
	"testing"
)

func TestABrokenInvariantPanicsWithItsIdAndValues(t *testing.T) {
	defer func() {
		v, ok := recover().(Violation)
		if !ok || v.ID != "S3" || v.Detail != "delivered 7 > received 5" {
			t.Fatalf("recovered %#v", v)
		}
		if text := v.Error(); !strings.Contains(text, "S3") || !strings.Contains(text, v.Detail) {
			t.Fatalf("reads %q", text)
		}
	}()
	Check(false, "S3", "delivered %d > received %d", 7, 5)
	t.Fatal("Check returned")
}

func TestAnInvariantThatHoldsSaysNothing(t *testing.T) {
	Check(true, "S3", "never formatted")
}

// The idiom must cost nothing where checks are off: not even the boxing of its arguments.
func TestADisabledCheckEvaluatesNothing(t *testing.T) {
	if Enabled {
		t.Skip("checks are on in this build")
	}
	evaluated := 0
	value := func() int { evaluated++; return evaluated }
	if Enabled {
		Check(value() == 0, "S3", "value %d", value())
	}
	if evaluated != 0 {
		t.Fatalf("%d arguments were evaluated", evaluated)
	}
}

func BenchmarkCheck(b *testing.B) {
	var delivered, received uint64
	for b.Loop() {
		received++
		if Enabled {
			Check(delivered <= received, "S3", "delivered %d > received %d", delivered, received)
		}
	}
}
