package demo

import (
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// stayed makes a run out of what members said at its end.
func stayed(accounts ...*testlab.Answer) *chaosRun {
	r := newChaosRun(&trial{story: newStory(nil), views: map[squall.ViewID][]squall.NodeID{}})
	for i, a := range accounts {
		r.processes = append(r.processes, &process{number: i + 1, id: squall.NodeID(i + 1), stage: isGone, account: a, delivered: a.States[0].Messages})
	}
	return r
}

func TestTheVerdictFindsWhatIsWrong(t *testing.T) {
	account := func(sent uint64) *testlab.Answer {
		return &testlab.Answer{
			States: []testlab.State{{Messages: 30, Digest: "aa"}}, Lives: []testlab.Lives{{0, 10, 20}}, Accepted: []uint64{sent},
		}
	}
	good := func() *chaosRun { return stayed(account(10), account(20)) }
	for _, c := range []struct {
		name string
		harm func(*chaosRun)
		want string // empty: nothing is
	}{
		{"all is well", func(*chaosRun) {}, ""},
		{"digests differ", func(r *chaosRun) { r.processes[1].account.States[0].Digest = "bb" },
			"node 1 (process 1) has 30 messages with digest aa, and node 2 (process 2) has 30 with bb"},
		{"a message is lost", func(r *chaosRun) { r.processes[1].account.Accepted[0] = 21 }, "node 2 (process 2) sent 21 messages, of which 20 were delivered"},
		{"one that left lost a message", func(r *chaosRun) { r.processes[1].stage, r.processes[1].account.Accepted[0] = hasLeft, 21 },
			"node 2 (process 2) sent 21 messages, of which 20 were delivered"},
		{"one that was evicted lost messages", func(r *chaosRun) {
			r.processes[1].stage, r.processes[1].account.Accepted[0], r.processes[1].account.Halted = isOut, 25, "evicted"
		}, ""},
		{"more than was sent", func(r *chaosRun) {
			r.processes[1].stage, r.processes[1].account.Accepted[0], r.processes[1].account.Halted = isOut, 18, "evicted"
		}, "node 2 (process 2) sent 18 messages, and 20 were delivered"},
		{"no process is left", func(r *chaosRun) { r.processes = nil }, "no process is left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good()
			c.harm(r)
			err := r.verdict(t.Context())
			res := r.result(err)
			if (err == nil) != (c.want == "") || res.Agree != (err == nil) {
				t.Fatal(err, res.Agree)
			}
			if err != nil && (!errors.Is(err, ErrDisagree) || !strings.HasSuffix(err.Error(), c.want) || res.Fault != err.Error()) {
				t.Errorf("%v\nnot\n%s", err, c.want)
			}
			var out strings.Builder
			if res.writeTable(&out); strings.Contains(out.String(), "in the same order") != res.Agree {
				t.Error(out.String())
			}
		})
	}
}
