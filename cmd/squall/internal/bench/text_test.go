package bench

import (
	"strings"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.00012: "0.00012", 0.5: "0.50", 9.876: "9.88", 12.34: "12.3", 123.4: "123", 1234.5: "1 235", 1234567: "1 234 567", -4567: "-4 567",
	} {
		if got := show.Number(v); got != want {
			t.Errorf("%v: %q, not %q", v, got, want)
		}
	}
}

func TestWhatASizeIsCalled(t *testing.T) {
	for n, want := range map[int]string{100: "100 B", 10 << 10: "10 KiB", 2 << 20: "2 MiB", 1025: "1025 B"} {
		if got := Size(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestOthersOnTheMachineAreToldOf(t *testing.T) {
	for _, quiet := range []Values{nil, {0.1, 0.1, 0.5}} {
		if text := crowding(quiet); text != "" {
			t.Errorf("%v: %s", quiet, text)
		}
	}
	for _, crowded := range []Values{{0.2, 0.2, 0.2}, {0, 0, 0.6}} {
		if text := crowding(crowded); !strings.Contains(text, show.Number(crowded.Median())+" cores") || !strings.Contains(text, "at most "+show.Number(crowded[2])) {
			t.Errorf("%v: %q", crowded, text)
		}
	}
}

func TestTheDistanceOfTheCoresIsNextToTheFigures(t *testing.T) {
	m := Machine{Cores: 2, CoreDistanceNs: 61.7}
	if text := m.String(); !strings.Contains(text, "a cache line there and back in 62 ns") {
		t.Error(text)
	}
	if d := coreDistance(); d < 0 || d > 1e6 {
		t.Errorf("the distance is %v ns", d)
	}
}
