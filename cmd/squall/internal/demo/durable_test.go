package demo

import (
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
	"github.com/squall-go/squall/persist"
	_ "github.com/squall-go/squall/persist/bolt"
)

// cameBack makes a run of two nodes whose members were killed and started again, of what they said.
func cameBack() *durableRun {
	r := newDurableRun(&trial{story: newStory(nil), lines: [][]byte{[]byte("one"), []byte("two")}})
	r.Nodes, r.onDisks, r.acked = 2, 40, 18
	sent := uint64(10)
	for i := range 4 {
		p := &process{number: i + 1, id: squall.NodeID(i%2 + 1), stage: isKilled, acked: 9}
		if i >= 2 {
			p.stage, p.acked = isGone, sent
			p.account = &testlab.Answer{Accepted: []uint64{sent}, States: []testlab.State{{Messages: 40, Digest: "aa"}}, Lives: []testlab.Lives{{0, 10, 10, 10, 10}}}
		}
		r.processes = append(r.processes, p)
	}
	return r
}

func TestTheVerdictFindsWhatIsLost(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(*durableRun)
		want error // nil: nothing is
		text string
	}{
		{"all is well", func(*durableRun) {}, nil, ""},
		{"an unacknowledged message of a killed process", func(r *durableRun) { r.processes[0].acked = 0 }, nil, ""},
		{"something acknowledged is lost", func(r *durableRun) { r.processes[1].acked = 11 }, ErrLost,
			"node 2 (process 2) was acknowledged 11 messages, of which 10 are left"},
		{"something of one that stayed is lost", func(r *durableRun) { r.processes[3].account.Accepted[0] = 12 }, ErrDisagree,
			"node 2 (process 4) sent 12 messages, of which 10 were delivered"},
		{"the states differ", func(r *durableRun) { r.processes[3].account.States[0].Digest = "bb" }, ErrDisagree,
			"node 1 (process 3) has 40 messages with digest aa, and node 2 (process 4) has 40 with bb"},
		{"the disks have less", func(r *durableRun) { r.onDisks = 39 }, ErrDisagree, "the members have 40 messages, and 39 are on every disk"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := cameBack()
			c.harm(r)
			err := r.verdict(t.Context())
			res := r.result(err)
			if !errors.Is(err, c.want) || res.Agree != (c.want == nil) || err != nil && !strings.HasSuffix(err.Error(), c.text) {
				t.Errorf("%v, %v; want %v: %s", err, res.Agree, c.want, c.text)
			}
			var out strings.Builder
			if res.writeTable(&out); strings.Contains(out.String(), "nothing acknowledged is lost") != res.Agree {
				t.Error(out.String())
			}
		})
	}
}

// keep writes the log of a node: the messages of processes 1 and 2, by turns.
func (r *durableRun) keep(t *testing.T, node squall.NodeID, messages int) {
	t.Helper()
	s, err := persist.Open(t.Context(), persist.Config{Dir: nodeDir(r.Dir, node), Cluster: "test", Node: node})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Log(t.Context(), persist.LogConfig{ID: persist.LogID{Name: durableSubgroup}})
	for i := range messages {
		load := r.kept()
		data := load.Message(1+i%2, uint64(i/2))
		if err == nil {
			err = l.Import(t.Context(), persist.Record{Version: squall.Version{View: 1, Seq: squall.Seq(i)}, Time: squall.Time(1 + i), Sender: 1, Data: data})
		}
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestTheDisksAreReadWhenAllAreDead(t *testing.T) {
	r := cameBack()
	r.Dir = t.TempDir()
	r.keep(t, 1, 20)
	r.keep(t, 2, 18)
	r.processes = r.processes[:2]
	if err := r.readDisks(t.Context()); err != nil || r.onDisks != 18 {
		t.Error(err, r.onDisks)
	}
	r.processes[1].acked = 10
	const want = "of 10 acknowledged messages of node 2 (process 2), the log of node 2 has 9"
	if err := r.readDisks(t.Context()); !errors.Is(err, ErrLost) || !strings.HasSuffix(err.Error(), want) {
		t.Error(err)
	}
}
