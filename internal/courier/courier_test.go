package courier

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/views"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// ends are the ends of one view's transfers in a process each, all of them on loopback.
type ends struct {
	t       *testing.T
	nodes   []*rdmc.Node
	ends    []*Courier
	running sync.WaitGroup
	failed  chan error
	refused chan error
}

func newEnds(t *testing.T, n, largeMemory int, dir func(i int) string) *ends {
	t.Helper()
	e := &ends{t: t, failed: make(chan error, 100), refused: make(chan error, 100)}
	v := (&views.View{ID: 3, Cluster: "test"}).WithKey("secret")
	sg := views.Subgroup{Name: "a"}
	for i := range n {
		node, err := rdmc.Open(t.Context(), rdmc.Config{Self: rdmc.Peer{ID: order.NodeID(i + 1), Addr: "127.0.0.1:0"}})
		if err != nil {
			t.Fatal(err)
		}
		e.nodes = append(e.nodes, node)
		v.Members = append(v.Members, views.Member{ID: order.NodeID(i + 1), Addr: node.Peer().Addr})
		sg.Members = append(sg.Members, order.Rank(i))
	}
	sg.Senders = sg.Members
	v.Subgroups = []views.Subgroup{sg}
	for i, node := range e.nodes {
		room := InMemory
		if dir(i) != "" {
			room = InFiles(dir(i))
		}
		c, err := New(Config{
			Open: Over(node), Self: order.Rank(i), View: v, MaxMessage: largeMemory, LargeMemory: largeMemory, Room: room, InPlace: dir(i) == "", Go: e.running.Go,
			Failed: func(_ order.NodeID, why error) { e.failed <- why }, Refused: func(why error) { e.refused <- why },
		})
		if err != nil {
			t.Fatal(err)
		}
		e.ends = append(e.ends, c)
	}
	t.Cleanup(func() {
		for _, c := range e.ends {
			c.Close()
		}
		e.running.Wait()
		for _, node := range e.nodes {
			if err := node.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return e
}

func inMemory(int) string { return "" }

// send sends a body that is there already, and tells what came of it.
func (e *ends) send(i int, id uint64, data []byte) (member.Transfer, chan error) {
	done := make(chan error, 1)
	return e.ends[i].Send(id, multicast.NewBody(data, "", nil), len(data), func(err error) { done <- err }), done
}

func (e *ends) await(c chan error) error {
	e.t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(patience):
		e.t.Fatal("not in time")
		return nil
	}
}

// CO2
func TestABodyIsHereWhenItsSenderHearsThatItIsEverywhere(t *testing.T) {
	e := newEnds(t, 3, 1<<20, inMemory)
	for k := range uint64(50) {
		data := bytes.Repeat([]byte{byte(k)}, 1000+int(k)*100)
		_, done := e.send(1, k, data)
		if err := e.await(done); err != nil {
			t.Fatal(err)
		}
		for i, c := range e.ends {
			b := c.Take(1, k)
			if b == nil || !bytes.Equal(b.Data, data) {
				t.Fatalf("node %d does not have body %d", i+1, k)
			}
			if b.Release(); c.Take(1, k) != nil {
				t.Fatal("it is given twice")
			}
		}
	}
}

// CO1
func TestASenderThatHasMoreUnderWayThanItMayIsRefused(t *testing.T) {
	e := newEnds(t, 2, 1000, inMemory)
	_, first := e.send(0, 1, make([]byte, 600))
	if err := e.await(first); err != nil {
		t.Fatal(err)
	}
	_, second := e.send(0, 2, make([]byte, 600))
	if err := e.await(second); !errors.Is(err, rdmc.ErrFailed) {
		t.Errorf("%v", err)
	}
	if err := e.await(e.failed); !errors.Is(err, rdmc.ErrFailed) {
		t.Errorf("%v", err)
	}
}

// CO1: whenever a message is given up, on its way or everywhere, its room is there again before the
// next one is announced.
func TestRoomThatIsTakenOrGivenBackIsThereAgain(t *testing.T) {
	e := newEnds(t, 3, 1000, inMemory)
	for id := uint64(1); id < 100; id++ {
		s, done := e.send(0, id, make([]byte, 1000))
		switch id % 3 {
		case 0:
			s.Abort(errors.New("no"))
			_ = e.await(done) // it may have been everywhere by then
		case 1:
			if err := e.await(done); err != nil {
				t.Fatal(err)
			}
			s.Abort(errors.New("too late, and yet"))
		case 2:
			if err := e.await(done); err != nil {
				t.Fatal(err)
			}
			for _, c := range e.ends {
				c.Take(0, id).Release()
			}
		}
	}
	if len(e.failed) > 0 {
		t.Error(<-e.failed)
	}
}

func TestWhoIsAloneHasAllThatItSends(t *testing.T) {
	e := newEnds(t, 1, 1000, inMemory)
	done := make(chan error, 1)
	s := e.ends[0].Send(7, multicast.NewBody(make([]byte, 100), "", nil), 0, func(err error) { done <- err })
	if len(done) != 0 {
		t.Fatal("it is not filled")
	}
	s.Fill(100)
	if err := e.await(done); err != nil || e.ends[0].Take(0, 7) == nil {
		t.Error(err)
	}
}

func TestAProcessThatIsAloneIsToldOfABodyThatItGaveUp(t *testing.T) {
	e := newEnds(t, 1, 1000, inMemory)
	reason, done := errors.New("no"), make(chan error, 2)
	s := e.ends[0].Send(7, multicast.NewBody(make([]byte, 100), "", nil), 0, func(err error) { done <- err })
	s.Abort(reason)
	if len(done) != 1 || <-done != reason || e.ends[0].Take(0, 7) != nil {
		t.Error("its room is never free again, or it is here still")
	}
	s.Fill(100)
	if len(done) != 0 {
		t.Error("it is told twice")
	}
}

// CO3
func TestWhatIsHalfHereIsFreedWhenTheViewEnds(t *testing.T) {
	dir := t.TempDir()
	e := newEnds(t, 2, 1<<20, func(i int) string {
		if i == 1 {
			return dir
		}
		return ""
	})
	_, whole := e.send(0, 1, make([]byte, 1000))
	if err := e.await(whole); err != nil {
		t.Fatal(err)
	}
	half := make(chan error, 1)
	e.ends[0].Send(2, multicast.NewBody(make([]byte, 1<<19), "", nil), 1<<18, func(err error) { half <- err })
	files := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for deadline := time.Now().Add(patience); files() < 2 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	for _, c := range e.ends {
		c.End()
	}
	if err := e.await(half); err == nil {
		t.Error("what is half here is everywhere")
	}
	e.running.Wait()
	if n := files(); n != 1 {
		t.Errorf("%d files, one is of a body that is whole", n)
	}
	if b := e.ends[1].Take(0, 1); b == nil || b.File == "" {
		t.Error("a body that is whole is gone")
	} else {
		b.Release()
	}
	if _, done := e.send(0, 3, make([]byte, 10)); e.await(done) == nil {
		t.Error("something was sent after the end")
	}
	e.ends[1].Close()
	if n := files(); n != 0 || len(e.failed) > 0 {
		t.Errorf("%d files; failures: %d", n, len(e.failed))
	}
}

func TestABodyThatComesAfterTheEndIsFreed(t *testing.T) {
	freed := 0
	c := &Courier{bytes: make([]int, 1)}
	c.come = []parcel{{0, 7, multicast.NewBody(make([]byte, 10), "", func() { freed++ })}}
	c.ended = true // as End does, without waiting for Done of other transfers
	c.Close()
	c.completed(0, rdmc.Incoming{Tag: 7}, nil, nil)
	if freed != 1 || len(c.here) != 0 {
		t.Errorf("freed %d times, %d are kept", freed, len(c.here))
	}
}

func TestADirectoryWithoutRoomIsTold(t *testing.T) {
	e := newEnds(t, 2, 1<<20, func(i int) string {
		if i == 1 {
			return "/nowhere"
		}
		return ""
	})
	_, done := e.send(0, 1, make([]byte, 1000))
	if err := e.await(done); !errors.Is(err, rdmc.ErrFailed) {
		t.Errorf("%v", err)
	}
	if err := e.await(e.refused); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
