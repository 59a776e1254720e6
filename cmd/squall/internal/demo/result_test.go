package demo

import (
	"errors"
	"strings"
	"testing"
)

func TestMembersThatDisagreeAreAnErrorThatSaysWhoDeliveredWhat(t *testing.T) {
	r := Result{Nodes: 3, Messages: 1000, Members: []MemberResult{{ID: 1, Messages: 1000, Digest: "aa"}, {ID: 2, Messages: 1000, Digest: "bb"}, {ID: 3, Messages: 1000, Digest: "aa"}}}
	err := r.verdict()
	const want = "the members disagree: members 1 and 3 delivered 1,000 messages with digest aa; member 2 delivered 1,000 messages with digest bb"
	if !errors.Is(err, ErrDisagree) || err.Error() != want {
		t.Fatalf("%v\nnot\n%s", err, want)
	}
	var out strings.Builder
	if err := r.writeTable(&out); err != nil || strings.Contains(out.String(), "in the same order") {
		t.Errorf("%v\n%s", err, out.String())
	}
	r.Members[1].Digest = "aa"
	if err := r.verdict(); err != nil {
		t.Error(err)
	}
	r.Members[1].Messages = 999
	if err := r.verdict(); !errors.Is(err, ErrDisagree) {
		t.Errorf("one message less: %v", err)
	}
}

func TestDigestsAreComparedWhole(t *testing.T) {
	const shown = "0123456789ab"
	r := Result{Nodes: 2, Messages: 1, Members: []MemberResult{{ID: 1, Messages: 1, Digest: shown + "c"}, {ID: 2, Messages: 1, Digest: shown + "d"}}}
	if err := r.verdict(); !errors.Is(err, ErrDisagree) || !strings.Contains(err.Error(), "digest "+shown+";") {
		t.Error(err)
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for ns, want := range map[int64]string{0: "0ns", 999: "999ns", 1000: "1.00µs", 23_456: "23.5µs", 999_960: "1,000µs", 1_234_567: "1.23ms", 61_000_000_000: "61.0s"} {
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
