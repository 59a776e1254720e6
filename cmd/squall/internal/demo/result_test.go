package demo

import (
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

func TestMembersThatDisagreeAreAnErrorThatSaysWhoDeliveredWhat(t *testing.T) {
	const shown = "0123456789ab" // digests are compared whole
	r := &run{trial: &trial{}}
	for i, digest := range []string{shown + "c", shown + "d", shown + "c"} {
		answer := &testlab.Answer{States: []testlab.State{{Messages: 1000, Digest: digest}}, Lives: []testlab.Lives{nil}}
		r.processes = append(r.processes, &process{number: i + 1, id: squall.NodeID(i + 1), account: answer, probed: &testlab.Answer{Timing: testlab.Timing{Links: make([]string, 3)}}})
	}
	err := r.verdict(t.Context())
	const want = "the members disagree: node 1 (process 1) has 1000 messages with digest 0123456789ab, and node 2 (process 2) has 1000 with 0123456789ab"
	if !errors.Is(err, ErrDisagree) || err.Error() != want {
		t.Fatalf("%v\nnot\n%s", err, want)
	}
	var out strings.Builder
	if err := r.result(err).writeTable(&out); err != nil || strings.Contains(out.String(), "in the same order") {
		t.Errorf("%v\n%s", err, out.String())
	}
	r.processes[1].account.States[0].Digest = shown + "c"
	if err := r.verdict(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for ns, want := range map[int64]string{0: "0s", 999: "999ns", 1000: "1.00µs", 23_456: "23.5µs", 999_960: "1,000µs", 1_234_567: "1.23ms", 61_000_000_000: "61.0s"} {
		if got := short(ns); got != want {
			t.Errorf("%d: %s, not %s", ns, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.00", 9.994: "9.99", 99.94: "99.9", 123.4: "123", 12345.6: "12,346"} {
		if got := decimal(v); got != want {
			t.Errorf("%v: %s, not %s", v, got, want)
		}
	}
}

func TestPairsAreListedByFabric(t *testing.T) {
	mixed := Result{Nodes: 3, Links: []Link{{[2]int{1, 2}, "shm"}, {[2]int{1, 3}, "tcp"}, {[2]int{2, 3}, "tcp"}}}
	same := Result{Nodes: 3, Links: []Link{{[2]int{1, 2}, "tcp"}, {[2]int{1, 3}, "tcp"}, {[2]int{2, 3}, "tcp"}}}
	for want, r := range map[string]Result{
		"fabric: shm between 1–2, tcp between 1–3 2–3": mixed,
		"fabric: tcp between all members":              same,
		"fabric: none, one member alone":               {Nodes: 1},
	} {
		if got := r.fabrics(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
