package predicates

import (
	"fmt"
	"testing"
	"time"
)

// A loop sleeps where the kernel says that other threads have its core for more than its share.
func TestContentionIsWhatTheKernelSaysOfTheThread(t *testing.T) {
	const µs, ms = time.Microsecond, time.Millisecond
	for _, c := range []struct {
		loops, cores int
		ran, delayed time.Duration // in each window
		want         bool
	}{
		{2, 2, 5 * ms, 0, false},
		{2, 2, 5 * ms, 100 * µs, false},   // threads of the kernel
		{2, 2, 3 * ms, 3 * ms, true},      // another thread has its turn
		{2, 2, 0, 6 * ms, true},           //
		{2, 2, 100 * µs, 300 * µs, false}, // a thread that sleeps, and runs soon after it is woken
		{3, 2, 3 * ms, 3 * ms, false},     // half of a core, of two thirds
		{3, 2, 1 * ms, 4 * ms, true},      // less than a third
		{16, 2, 1 * ms, 14 * ms, false},   // sixteen loops: a sixteenth of a core is half of a share
		{16, 2, 1 * ms, 16 * ms, true},
	} {
		t.Run(fmt.Sprintf("%d loops on %d cores, %v delayed for each %v", c.loops, c.cores, c.delayed, c.ran), func(t *testing.T) {
			var k Contention
			k.SetLoops(c.loops, c.cores)
			u := usage{thread: 7}
			k.look(0, u)
			now, found := time.Duration(0), false
			for range 3 {
				now += contentionWindow
				u.ran, u.delayed = u.ran+c.ran, u.delayed+c.delayed
				found = found || k.look(now, u)
			}
			if found != c.want {
				t.Errorf("contention found: %v", found)
			}
			if k.until > now+contentionTime {
				t.Error("the verdict holds for longer than it may")
			}
		})
	}
}

// What one thread waited says nothing of another one, and what was before a verdict nothing of the time after it.
func TestContentionBeginsAnewWithAThreadAndAfterAVerdict(t *testing.T) {
	var k Contention
	k.SetLoops(1, 2)
	k.look(0, usage{thread: 7})
	if k.look(contentionWindow, usage{thread: 8, delayed: time.Hour}) {
		t.Fatal("found in the figures of two threads")
	}
	if !k.look(2*contentionWindow, usage{thread: 8, delayed: 2 * time.Hour}) {
		t.Fatal("not found")
	}
	now := k.until
	if k.look(now, usage{thread: 8, delayed: 3 * time.Hour}) {
		t.Fatal("found in what was before the end of the verdict")
	}
	if k.look(now+contentionWindow, usage{thread: 8, ran: contentionWindow, delayed: 3 * time.Hour}) {
		t.Fatal("found in a window in which the thread had its core")
	}
}

// The kernel's figures of a thread that computes grow.
func TestTheKernelKnowsWhatAThreadRan(t *testing.T) {
	var k kernel
	defer k.close()
	first := k.usage()
	if first.thread == 0 {
		t.Skip("the kernel does not say what threads run")
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if u := k.usage(); u.thread == first.thread && u.ran > first.ran {
			return
		} else if u.thread != first.thread {
			first = u
		}
		if time.Now().After(deadline) {
			t.Fatal("the thread computed, and did not run")
		}
	}
}
