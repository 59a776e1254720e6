package demo

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
)

// failureReport collects what is known after a member went before its time. One death ends the demo
// at all the others, so the first to be seen need not be the first to have gone.
type failureReport struct {
	pids  []int
	ended []error // by member: how it ended; nil while it lives
	lost  []*lost // by member: the members that it misses
}

func newFailureReport(processes []*process) *failureReport {
	q := &failureReport{ended: make([]error, len(processes)), lost: make([]*lost, len(processes))}
	for _, p := range processes {
		q.pids = append(q.pids, p.child.Pid())
	}
	return q
}

func (q *failureReport) add(e trialEvent) {
	i := e.p.number - 1
	if e.Lost != nil {
		q.lost[i] = e.Lost
	}
	if e.err != nil {
		q.ended[i] = e.err
	}
}

// complete reports whether every member has ended or reported a missing member.
func (q *failureReport) complete() bool {
	for i := range q.ended {
		if q.ended[i] == nil && q.lost[i] == nil {
			return false
		}
	}
	return true
}

// witnesses are the members, from 1, that miss member i.
func (q *failureReport) witnesses(i int) (ids []int) {
	for w, l := range q.lost {
		if l != nil && l.ID == squall.NodeID(i+1) {
			ids = append(ids, w+1)
		}
	}
	return ids
}

// verdict names the members that failed, how they failed, and what the other members saw. Members
// that were killed come first, then members that ended in another way without blaming another
// member, then members that the others miss and that miss no member themselves.
func (q *failureReport) verdict() error {
	for _, guilty := range []func(i int) bool{q.killed, q.failed, q.missed, q.early} {
		var errs []error
		for i := range q.ended {
			if guilty(i) {
				errs = append(errs, q.describe(i))
			}
		}
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
	}
	return errors.New("the demo ended early, and no member says why")
}

func (q *failureReport) killed(i int) bool {
	var exit *proc.Exit
	return errors.As(q.ended[i], &exit) && exit.Signal != 0
}

func (q *failureReport) failed(i int) bool {
	return q.ended[i] != nil && q.ended[i] != io.EOF && q.lost[i] == nil
}

func (q *failureReport) missed(i int) bool { return q.lost[i] == nil && len(q.witnesses(i)) > 0 }

func (q *failureReport) early(i int) bool { return q.ended[i] == io.EOF }

func (q *failureReport) describe(i int) error {
	witnesses := q.witnesses(i)
	err := q.ended[i]
	switch {
	case err == nil:
		err = fmt.Errorf("member %d (pid %d) does not answer", i+1, q.pids[i])
	case err == io.EOF:
		err = fmt.Errorf("member %d (pid %d) ended too early", i+1, q.pids[i])
	}
	if len(witnesses) == 0 {
		return err
	}
	return fmt.Errorf("%w; %s: %s", err, those(witnesses, "reports", "report"), q.lost[witnesses[0]-1].Error)
}

// those names members in a sentence: "member 1 reports", "members 1, 3 and 4 report".
func those(ids []int, one, many string) string {
	if len(ids) == 1 {
		return fmt.Sprintf("member %d %s", ids[0], one)
	}
	words := make([]string, len(ids))
	for i, id := range slices.Sorted(slices.Values(ids)) {
		words[i] = fmt.Sprint(id)
	}
	last := len(words) - 1
	return fmt.Sprintf("members %s and %s %s", strings.Join(words[:last], ", "), words[last], many)
}
