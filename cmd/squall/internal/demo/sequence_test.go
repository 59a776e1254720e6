package demo

import (
	"testing"

	"github.com/squall-go/squall"
)

// sumOf delivers messages, "sender:data", in runs.
func sumOf(t *testing.T, runs ...[]squall.Message) string {
	t.Helper()
	total := 0
	for _, run := range runs {
		total += len(run)
	}
	s := newSequence(1, uint64(total))
	for _, run := range runs {
		s.deliver(run)
	}
	select {
	case <-s.all:
	default:
		t.Fatalf("delivered %d of %d", s.count.Load(), total)
	}
	return s.digest.Sum()
}

func TestTheDigestIsOfTheSequenceAndNotOfItsRuns(t *testing.T) {
	msg := func(sender squall.NodeID, data string) squall.Message {
		return squall.Message{Sender: sender, Data: []byte(data)}
	}
	a, b, c := msg(1, "a"), msg(2, "b"), msg(3, "")
	want := sumOf(t, []squall.Message{a, b, c})
	if got := sumOf(t, []squall.Message{a}, []squall.Message{b, c}); got != want {
		t.Errorf("in two runs: %s, not %s", got, want)
	}
	for what, other := range map[string][]squall.Message{
		"another order":    {b, a, c},
		"another sender":   {msg(2, "a"), b, c},
		"another message":  {msg(1, "A"), b, c},
		"other borders":    {msg(1, ""), msg(2, "ab"), c},
		"one message less": {a, b},
		"one message more": {a, b, c, c},
	} {
		if got := sumOf(t, other); got == want {
			t.Errorf("%s: the same digest", what)
		}
	}
}

func TestOwnMessagesBehindTheLoadAreProbes(t *testing.T) {
	s := newSequence(1, 2)
	own, other := squall.Message{Sender: 1, Data: []byte("x")}, squall.Message{Sender: 2, Data: []byte("y")}
	s.sending()
	s.deliver([]squall.Message{own, other})
	sum, bytes := s.digest.Sum(), s.digest.Bytes
	s.sending()
	s.deliver([]squall.Message{other, own})
	if d := <-s.probed; d < 0 {
		t.Errorf("a probe took %v", d)
	}
	if s.loaded.TotalCount() != 1 || s.digest.Sum() != sum || s.digest.Bytes != bytes {
		t.Errorf("probes count as load: %d latencies, %d bytes", s.loaded.TotalCount(), s.digest.Bytes)
	}
}
