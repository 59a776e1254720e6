package dds_test

import (
	"os"
	"slices"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// All processes of a group end, and what comes back has the disk of before the last samples, which
// a client has read. When the client finds a relay again, the group has come further than the
// client was: it is notified that samples are lost, and reads every sample that was written since.
func TestAClientOfAGroupThatLostSamplesReadsAllOthers(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()+"/copy"
	set := dds.QoS{Durability: qos.Persistent, Service: qos.DurabilityService{History: qos.KeepAll()}}
	persistent := dds.QoS{Durability: qos.Persistent}
	addr := testutil.FreeAddress(t)
	start := func(dir string) (*member.Member, *dds.Writer[position]) {
		t.Helper()
		p, err := member.Open(t.Context(), member.Config{
			Group:    squall.Config{Cluster: "test", ID: 1, Listen: addr, Join: []string{addr}, InitialMembers: 1, Dir: dir, Logger: quiet},
			Subgroup: squall.SubgroupConfig{Name: "fleet", Mode: squall.Persistent},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p, writer(t, topic(t, p, set), persistent)
	}
	n := int32(0)
	put := func(w *dds.Writer[position], samples int) {
		t.Helper()
		for range samples {
			n++
			write(t, w, position{N: n})
		}
		if err := w.Flush(testutil.Within(t)); err != nil {
			t.Fatal(err)
		}
	}
	first, w := start(dir)
	put(w, 5)
	closeAll(t, first)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	second, w := start(dir)
	relay, err := member.Serve(t.Context(), member.RelayConfig{Member: second, Endpoint: ripc.Config{Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan dds.SampleLost, 10)
	c := dial(t, func(e dds.Event) {
		if e, ok := e.(dds.SampleLost); ok {
			lost <- e
		}
	}, relay.Addr())
	r := reader(t, topic(t, c, set), dds.QoS{Durability: qos.Persistent, History: qos.KeepAll()})
	put(w, 5)
	read := func() (got []int32) {
		t.Helper()
		for !slices.Contains(got, n) {
			if s := next(t, r, 1)[0]; s.Info.Valid {
				got = append(got, s.Value.N)
			}
		}
		return got
	}
	if got := read(); len(got) != 10 {
		t.Fatalf("got %v", got)
	}
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
	closeAll(t, second)
	third, w := start(copied)
	put(w, 30)
	again := serveAt(t, third, relay.Addr())
	if got := read(); len(got) != 30 {
		t.Errorf("got %v", got)
	}
	select {
	case e := <-lost:
		if e.Count != 0 {
			t.Errorf("lost: %+v", e)
		}
	case <-testutil.Within(t).Done(): // the event may come after the samples
		t.Error("nothing is told of the lost samples")
	}
	if err := c.Close(testutil.Within(t)); err != nil {
		t.Error(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	closeAll(t, third)
}
