//go:build linux

package verbs

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/fabric/verbs/internal/fake"
	"github.com/squall-go/squall/order"
	"golang.org/x/sys/unix"
)

var smallShape = fabric.RowShape{ControlBytes: 4 * fabric.LineBytes, RowBytes: 4*fabric.LineBytes + 4096}

// sleeper tries whether a loop that is about to sleep misses a message (QP7).
func sleeper(t testing.TB, seed uint64) error {
	w := newWorld(t, 2, smallShape, fake.Options{Seed: seed})
	defer w.close(t)
	a, b := w.nodes[0], w.nodes[1]
	for round := uint64(1); round < 20; round++ {
		*fabric.Word(b.own, fabric.LineBytes) = round
		b.table.PushLine([]order.Rank{0}, fabric.LineBytes)
		b.table.Flush()
		for a.parker.Announce(); a.table.Poll() > 0 || a.table.Flush() > 0; {
		}
		w.net.Settle()
		if *fabric.Word(a.table.Row(1), fabric.LineBytes) != round && !readable(a.links.hub.queue) {
			return fmt.Errorf("QP7: the message of round %d is there, and nothing wakes the loop", round)
		}
		a.parker.Retract()
		a.parker.Look()
		for tries := 0; *fabric.Word(a.table.Row(1), fabric.LineBytes) != round; tries++ {
			if tries > 1000 {
				return fmt.Errorf("round %d does not arrive", round)
			}
			a.table.Poll()
			b.table.Poll()
		}
		a.table.Flush()
		if f := slices.Concat(a.table.Failures(), b.table.Failures()); len(f) > 0 {
			return fmt.Errorf("a failure: %w", f[0].Err)
		}
	}
	return nil
}

func readable(q device.Queue) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(q.Descriptor()), Events: unix.POLLIN}}, 0)
	return n > 0
}

func TestALoopThatSleepsIsWokenByTheNextMessage(t *testing.T) {
	Seeds(t, 50, 50, sleeper)
}

// brokenQueue is a queue whose device is gone.
type brokenQueue struct{ device.Queue }

func (brokenQueue) Poll([]device.Completion) (int, error) { return 0, unix.EIO }
func (brokenQueue) Arm() error                            { return unix.EIO }

func TestADeviceThatFailsEndsItsLinks(t *testing.T) {
	for _, sleeps := range []bool{false, true} {
		w := newWorld(t, 2, smallShape, fake.Options{Seed: 1})
		a := w.nodes[0]
		queue := a.links.hub.queue
		a.links.hub.queue = brokenQueue{queue}
		if sleeps {
			a.parker.Announce()
		}
		a.table.Poll()
		if f := a.table.Failures(); len(f) != 1 || !errors.Is(f[0].Err, device.ErrFailed) {
			t.Errorf("failures of a loop that sleeps %t: %v", sleeps, f)
		}
		a.parker.Retract()
		a.links.hub.queue = queue
		w.close(t)
	}
}

// reuse freezes a row before anything of what was posted is placed, and uses the bytes again (QP5).
func reuse(t testing.TB, seed uint64) error {
	w := newWorld(t, 2, smallShape, fake.Options{Seed: seed})
	defer w.close(t)
	a, b := w.nodes[0], w.nodes[1]
	bytes := a.own[smallShape.ControlBytes:]
	for i := range bytes {
		bytes[i] = 1
	}
	w.net.Hold(true)
	a.table.Push([]order.Rank{1}, smallShape.ControlBytes, len(bytes))
	*fabric.Word(a.own, fabric.LineBytes) = 1
	a.table.PushLine([]order.Rank{1}, fabric.LineBytes)
	a.table.Flush()
	a.table.Freeze(1)
	clear(bytes)
	w.net.Hold(false)
	w.net.Settle()
	for range 20 {
		b.table.Poll()
	}
	if row := b.table.Row(0); *fabric.Word(row, fabric.LineBytes) == 1 && slices.Contains(row[smallShape.ControlBytes:], 0) {
		return fmt.Errorf("QP5: the guard is there, and bytes that were used again after Freeze")
	}
	return nil
}

func TestBytesMayChangeAfterFreeze(t *testing.T) {
	Seeds(t, 20, 20, reuse)
}

// reconnect makes a link while completions of an earlier one of the same number are in the queue
// (QP6).
func reconnect(t testing.TB, seed uint64) error {
	w := newWorld(t, 2, smallShape, fake.Options{Seed: seed})
	defer w.close(t)
	n := w.nodes[0]
	first, err := n.links.link(1)
	must(t, err)
	number := first.pair.Endpoint().Number
	first.lifeline = noLifeline{}
	must(t, first.release())
	second, err := n.links.link(1)
	must(t, err)
	if second.pair.Endpoint().Number != number {
		return fmt.Errorf("the pair got another number: nothing is tried")
	}
	second.lifeline = noLifeline{}
	defer func() { must(t, second.release()) }()
	for range 100 {
		n.table.Poll()
		if _, err := second.Poll(); err != nil {
			return fmt.Errorf("QP6: a link that was just made: %w", err)
		}
	}
	return nil
}

func TestCompletionsOfAnEarlierPairDoNotCount(t *testing.T) {
	Seeds(t, 50, 50, reconnect)
}

// intruder is a peer that knows all keys and addresses, and tries to write everything (QP4, F3).
func intruder(t testing.TB) error {
	for key := uint32(1); key <= 24; key++ {
		for target := range 5 {
			w := newWorld(t, 3, smallShape, fake.Options{Seed: uint64(key)})
			evil, victim := w.nodes[2], w.nodes[0]
			other, mine := victim.to[1], victim.to[2]
			address := []uint64{
				addressOf(other.replica) + uint64(smallShape.ControlBytes), // the bytes of another peer
				addressOf(other.replica), addressOf(mine.replica),          // control parts
				addressOf(victim.own), addressOf(mine.stage),
			}[target]
			before := slices.Concat(victim.own, other.replica, mine.replica, mine.stage)
			l := evil.to[0]
			evil.own[smallShape.ControlBytes] = 0x77
			must(t, l.pair.Post(nil, []device.Work{{
				Kind: device.Write, Local: addressOf(evil.own) + uint64(smallShape.ControlBytes), LocalKey: l.ownKey, Bytes: 1, Remote: address, RemoteKey: key,
			}}))
			for range 100 {
				evil.links.hub.take(l, true)
			}
			changed := !slices.Equal(before[:len(before)-len(mine.stage)], slices.Concat(victim.own, other.replica, mine.replica)) ||
				target == 4 && mine.stage[0] == 0x77
			w.close(t)
			if changed {
				return fmt.Errorf("QP4: with key %d a peer wrote memory %d", key, target)
			}
		}
	}
	return nil
}

func TestAPeerThatGuessesKeysWritesNothing(t *testing.T) {
	if err := intruder(t); err != nil {
		t.Fatal(err)
	}
}

// Whatever a peer says in a message ends the link, or does what the protocol allows (QP8).
func TestAHostileMessageEndsTheLink(t *testing.T) {
	line := func(off uint64) []byte {
		b := make([]byte, lineBytes)
		b[0], b[1] = byte(off), byte(off>>8)
		return b
	}
	head := func(lines, flags byte, granted uint32) []byte {
		return []byte{lines, 0, flags, 0, byte(granted), byte(granted >> 8), byte(granted >> 16), byte(granted >> 24)}
	}
	for name, c := range map[string]struct {
		message []byte
		fine    bool
	}{
		"a line":                    {append(head(1, 0, receives), line(64)...), true},
		"no line":                   {head(0, 0, receives), true},
		"shorter than its head":     {[]byte{0, 0, 0}, false},
		"more lines than are there": {append(head(2, 0, receives), line(64)...), false},
		"fewer":                     {append(head(0, 0, receives), line(64)...), false},
		"a line of the bytes":       {append(head(1, 0, receives), line(4*64)...), false},
		"a line between lines":      {append(head(1, 0, receives), line(8)...), false},
		"an unknown flag":           {head(0, 4, receives), false},
		"too many receives":         {head(0, 0, receives+1), false},
		"fewer receives":            {head(0, 0, receives-1), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, smallShape, fake.Options{Seed: 1})
			defer w.close(t)
			evil := w.nodes[1].to[0]
			copy(evil.stage[receives*messageBytes:], c.message)
			must(t, evil.pair.Post(nil, []device.Work{{Kind: device.Send, Local: evil.stageAt.Address + receives*messageBytes, LocalKey: evil.stageAt.Key, Bytes: uint32(len(c.message))}}))
			var failures []fabric.Failure
			for range 200 {
				w.nodes[0].table.Poll()
				failures = append(failures, w.nodes[0].table.Failures()...)
			}
			if fine := len(failures) == 0; fine != c.fine || len(failures) > 1 {
				t.Errorf("QP8: failures: %v", failures)
			}
		})
	}
	t.Run("a frame without end", func(t *testing.T) {
		l := &Link{peerShape: smallShape}
		for range 4 {
			if err := l.takeLines(line(64), true); err != nil {
				t.Fatal(err)
			}
		}
		if l.takeLines(line(64), true) == nil {
			t.Error("QP8: a frame has more lines than the row")
		}
	})
}
