package messages

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// delivered is what a member is left with after a sequence of (sender, index).
func delivered(unordered bool, sequence ...[2]int) State {
	spec := DefaultSpec().with(func(s *Spec) { s.SizeBytes, s.Unordered = stampBytes, unordered })
	t := newTally(spec, 1)
	for _, m := range sequence {
		data := make([]byte, stampBytes)
		fill(data, uint64(m[1]))
		t.parts[0].batch([]squall.Message{{Sender: squall.NodeID(m[0]), Data: data}})
	}
	return t.state()
}

func TestADifferentSequenceIsFound(t *testing.T) {
	a, b, c := [2]int{1, 0}, [2]int{2, 0}, [2]int{1, 1}
	want := delivered(false, a, b, c)
	want.Sent = 3
	for _, k := range []struct {
		name   string
		other  State
		result error
	}{
		{"the same", delivered(false, a, b, c), nil},
		{"another order between senders", delivered(false, b, a, c), ErrDifferent},
		{"another order within a sender", delivered(false, c, b, a), ErrSequence},
		{"another sender", delivered(false, a, [2]int{3, 0}, c), ErrDifferent},
		{"one less", delivered(false, a, b), ErrNotSettled},
	} {
		if err := compare([]State{want, k.other}, false); !errors.Is(err, k.result) || k.result == nil && err != nil {
			t.Errorf("%s: %v, not %v", k.name, err, k.result)
		}
	}
}

func TestInUnorderedModeOnlyTheOrderOfASenderCounts(t *testing.T) {
	a, b, c := [2]int{1, 0}, [2]int{2, 0}, [2]int{1, 1}
	want := delivered(true, a, b, c)
	want.Sent = 3
	if err := compare([]State{want, delivered(true, b, a, c)}, false); err != nil {
		t.Error(err)
	}
	if err := compare([]State{want, delivered(true, a, b, [2]int{2, 1})}, false); !errors.Is(err, ErrDifferent) {
		t.Error(err)
	}
}

func TestWhatIsLostIsFoundUnlessTheOrderMayStall(t *testing.T) {
	states := []State{{Sent: 2, Delivered: 2}, {Sent: 1, Delivered: 2}}
	if err := compare(states, false); !errors.Is(err, ErrNotSettled) {
		t.Error(err)
	}
	if err := compare(states, true); err != nil {
		t.Error(err)
	}
}

func TestAMessageOutOfTurnIsNamed(t *testing.T) {
	s := delivered(false, [2]int{1, 0}, [2]int{1, 2})
	if want := "message 2 of node 1 came where 1 was due"; s.Fault != want {
		t.Errorf("%q, not %q", s.Fault, want)
	}
}

func TestRunsOfMessagesAreCountedAndCopied(t *testing.T) {
	counted := newTally(DefaultSpec().with(func(s *Spec) { s.SizeBytes, s.Copy = 100, true }), 1)
	var run []squall.Message
	for i := range 50 {
		data := make([]byte, 100)
		fill(data, uint64(i))
		run = append(run, squall.Message{Sender: 3, Data: data})
	}
	counted.parts[0].batch(run)
	if s := counted.state(); s.Delivered != 50 || s.Fault != "" || counted.parts[0].sum == 0 || string(counted.parts[0].copied) != string(run[49].Data) {
		t.Fatalf("%+v", s)
	}
}

func TestEveryByteIsWrittenAndEveryLineRead(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 15, 16, 100, 4096, 10 << 10} {
		a, b := make([]byte, size), make([]byte, size)
		for i := range b {
			b[i] = 0xff
		}
		fill(a, 5) // not stamped
		fill(b, 5)
		if string(a) != string(b) {
			t.Errorf("%d bytes: not all of them are written", size)
		}
		if index, ok := indexOf(a); ok != (size >= bench.IndexBytes) || ok && index != 5 {
			t.Errorf("%d bytes: index %d, %v", size, index, ok)
		}
		clear(a)
		for i := 0; i < size; i += 64 {
			a[i] = 1
		}
		if got, want := bench.Touch(a), uint64(size+63)/64; got != want {
			t.Errorf("%d bytes: %d lines read, not %d", size, got, want)
		}
	}
}

func TestStampedMessagesTellTheirLatency(t *testing.T) {
	b := make([]byte, stampBytes)
	fill(b, stampEvery)
	if d, ok := latencyOf(b); !ok || d < 0 {
		t.Error(d, ok)
	}
	fill(b, stampEvery+1)
	if _, ok := latencyOf(b); ok {
		t.Error("a message without a stamp has a latency")
	}
}

func TestAFanOutReceiverTakesWholeMessagesOnly(t *testing.T) {
	var b []byte
	for _, size := range []int{3, 0, 10} {
		b = binary.LittleEndian.AppendUint32(b, uint32(size))
		b = append(b, make([]byte, size)...)
	}
	for cut, want := range map[int][]int{0: nil, 3: nil, 6: nil, 7: {3}, 10: {3}, 11: {3, 0}, 24: {3, 0}, 25: {3, 0, 10}} {
		var sizes []int
		rest := b[:cut]
		for m, size := first(rest); size > 0; m, size = first(rest) {
			sizes, rest = append(sizes, len(m)), rest[size:]
		}
		if !slices.Equal(sizes, want) {
			t.Errorf("%d bytes: messages of %v bytes, not %v", cut, sizes, want)
		}
	}
}
