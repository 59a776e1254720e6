package squall_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/squall-go/squall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// freeAddr finds a loopback address to listen on.
func freeAddr(t testing.TB) string { return freeAddrOn(t, "127.0.0.1") }

// freeAddrOn finds an address of a host to listen on.
func freeAddrOn(t testing.TB, host string) string {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort(host, port)
}

// eventually waits until something holds, and fails the test if it does not within 20 seconds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func send(t testing.TB, s *squall.Subgroup, text string) {
	t.Helper()
	if err := s.Send(t.Context(), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// journal is what one member delivered, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

// deliver is an upcall. It writes down sender and text.
func (j *journal) deliver(m squall.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%d:%s", m.Sender, m.Data))
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// from is what a sender's part of it is, in order.
func (j *journal) from(id squall.NodeID) (lines []string) {
	prefix := fmt.Sprintf("%d:", id)
	for _, l := range j.read() {
		if strings.HasPrefix(l, prefix) {
			lines = append(lines, l)
		}
	}
	return lines
}

// await waits for n messages.
func (j *journal) await(t testing.TB, n int) []string {
	t.Helper()
	eventually(t, fmt.Sprintf("%d messages", n), func() bool { return len(j.read()) >= n })
	return j.read()
}

// same waits until all members delivered n messages, which must be the same in the same order, and returns them.
func same(t testing.TB, n int, journals ...*journal) []string {
	t.Helper()
	first := journals[0].await(t, n)
	for i, j := range journals {
		if got := j.await(t, n); !slices.Equal(got, first) || len(got) != n {
			t.Fatalf("%d messages: journal %d differs from the first one:\n%q\n%q", n, i+1, got, first)
		}
	}
	return first
}

// everybodySends has each group send so many numbered messages at the same time.
func everybodySends(t testing.TB, subgroup string, each int, groups ...*squall.Group) {
	t.Helper()
	var senders sync.WaitGroup
	for _, g := range groups {
		senders.Go(func() {
			for k := range each {
				if err := g.Subgroup(subgroup).Send(t.Context(), fmt.Appendf(nil, "%d", k)); err != nil {
					t.Errorf("node %d: message %d: %v", g.ID(), k, err)
					return
				}
			}
		})
	}
	senders.Wait()
}

// newJournals makes n of them.
func newJournals(n int) []*journal {
	js := make([]*journal, n)
	for i := range js {
		js[i] = &journal{}
	}
	return js
}
