package dds_test

import (
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

// Each of the calls of Next that wait gets a sample or the end of an instance, however these come:
// each by itself, or together.
func TestEveryCallOfNextThatWaitsGetsASample(t *testing.T) {
	p := open(t, 1, nil)[0]
	tp := topic(t, p, dds.QoS{})
	r, w := reader(t, tp, dds.QoS{History: qos.KeepAll()}), writer(t, tp, dds.QoS{})
	ctx := testutil.Within(t)
	const calls = 4
	got := make(chan dds.Sample[position], calls)
	failed := make(chan error, calls)
	for range calls {
		go func() {
			s, err := r.Next(ctx)
			if err != nil {
				failed <- err
				return
			}
			got <- s
		}()
	}
	for r.Waiting() < calls {
		select {
		case <-ctx.Done():
			t.Fatalf("%d calls wait", r.Waiting())
		case <-time.After(time.Millisecond):
		}
	}
	one := func() (s dds.Sample[position]) {
		select {
		case s = <-got:
		case err := <-failed:
			t.Fatal(err)
		}
		return s
	}
	for n := range int32(2) {
		write(t, w, position{Vehicle: 1, N: n})
		if s := one(); s.Value.N != n {
			t.Errorf("sample %d comes instead of %d", s.Value.N, n)
		}
	}
	write(t, w, position{Vehicle: 1, N: 2})
	if err := w.Dispose(ctx, position{Vehicle: 1}); err != nil {
		t.Fatal(err)
	}
	if valid := []bool{one().Info.Valid, one().Info.Valid}; slices.Equal(valid, []bool{false, false}) || slices.Equal(valid, []bool{true, true}) {
		t.Errorf("samples %v", valid)
	}
}
