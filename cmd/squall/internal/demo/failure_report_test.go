package demo

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
)

func TestTheFailureReportNamesTheMemberThatWentFirst(t *testing.T) {
	member := func(i int) *process { return &process{number: i + 1} }
	killed := func(i int) trialEvent {
		return trialEvent{p: member(i), err: &proc.Exit{Role: "member", ID: i + 1, Pid: 100 + i, Signal: syscall.SIGKILL}}
	}
	failed := func(i int) trialEvent {
		return trialEvent{p: member(i), err: &proc.Exit{Role: "member", ID: i + 1, Pid: 100 + i, Code: 2, Stderr: []string{"panic: no"}}}
	}
	misses := func(i, other int) trialEvent {
		return trialEvent{p: member(i), memberReport: memberReport{Lost: &lost{squall.NodeID(other + 1), "gone"}}}
	}
	ended := func(i int) trialEvent { return trialEvent{p: member(i), err: io.EOF} }
	for _, c := range []struct {
		name     string
		events   []trialEvent
		complete bool
		want     string
	}{
		{"killed, and all others notice", []trialEvent{misses(0, 1), misses(2, 1), killed(1)}, true,
			"member 2 (pid 101) was killed by signal 9 (killed); members 1 and 3 report: gone"},
		{"killed, and no member notices yet", []trialEvent{killed(0)}, false, "member 1 (pid 100) was killed by signal 9 (killed)"},
		{"two are killed", []trialEvent{killed(0), killed(2), misses(1, 2)}, true,
			"member 1 (pid 100) was killed by signal 9 (killed)\nmember 3 (pid 102) was killed by signal 9 (killed); member 2 reports: gone"},
		{"the others fall over one another", []trialEvent{misses(0, 1), failed(0), misses(2, 0), failed(2), killed(1)}, true,
			"member 2 (pid 101) was killed by signal 9 (killed); member 1 reports: gone"},
		{"a panic", []trialEvent{misses(0, 2), misses(1, 2), failed(2)}, true,
			"member 3 (pid 102) ended with exit status 2: panic: no; members 1 and 2 report: gone"},
		{"hung", []trialEvent{misses(0, 1), misses(2, 1)}, false, "member 2 (pid 101) does not answer; members 1 and 3 report: gone"},
		{"hung, and one mistakes the effect for the cause", []trialEvent{misses(0, 1), misses(2, 0)}, false,
			"member 2 (pid 101) does not answer; member 1 reports: gone"},
		{"left early", []trialEvent{ended(2), misses(0, 2)}, false, "member 3 (pid 102) ended too early; member 1 reports: gone"},
		{"each blames another", []trialEvent{misses(0, 1), misses(1, 2), misses(2, 0)}, true, "the demo ended early, and no member says why"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &failureReport{pids: []int{100, 101, 102}, ended: make([]error, 3), lost: make([]*lost, 3)}
			for _, e := range c.events {
				q.add(e)
			}
			if q.complete() != c.complete {
				t.Errorf("complete: %v", q.complete())
			}
			if got := q.verdict().Error(); got != c.want {
				t.Errorf("%s\nnot\n%s", got, c.want)
			}
		})
	}
}

func TestTheVerdictKeepsWhatTheSystemSaid(t *testing.T) {
	q := &failureReport{pids: []int{1}, ended: []error{&proc.Exit{Err: syscall.ECHILD}}, lost: []*lost{nil}}
	if err := q.verdict(); !errors.Is(err, syscall.ECHILD) {
		t.Fatal(err)
	}
}

func TestMembersAreListedAsInASentence(t *testing.T) {
	for want, ids := range map[string][]int{"member 1 has": {1}, "members 1 and 2 have": {2, 1}, "members 1, 2 and 10 have": {10, 1, 2}} {
		if got := those(ids, "has", "have"); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
