package wait

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// told is a kernel that says what a test wrote down.
type told struct {
	u      Usage
	idling time.Duration
	asked  int
}

func (k *told) Usage() Usage        { k.asked++; return k.u }
func (k *told) Idle() time.Duration { k.asked++; return k.idling }
func (k *told) Close()              {}

// pass has a thread wait for the end of a time in which it ran, and was delayed, in each window,
// and the cores were idle for a part of it. It returns whether contention was found at any time.
func pass(c *Contention, k *told, now *time.Duration, long, ran, delayed time.Duration, idle float64) (found bool) {
	for end := *now + long; *now < end; {
		*now += contentionWindow
		k.u.Ran, k.u.Delayed = k.u.Ran+ran, k.u.Delayed+delayed
		k.idling += time.Duration(idle * float64(contentionWindow))
		found = c.Found(*now) || found
	}
	return found
}

// A loop sleeps where the kernel says that other threads have its core for more than their share,
// and no core is free.
func TestContentionIsWhatTheKernelSaysOfTheThreadAndTheCores(t *testing.T) {
	const µs, ms = time.Microsecond, time.Millisecond
	for _, c := range []struct {
		loops, cores int
		ran, delayed time.Duration // in each window
		idle         float64       // cores
		want         bool
	}{
		{2, 2, 5 * ms, 0, 0, false},
		{2, 2, 5 * ms, 100 * µs, 0, false},   // threads of the kernel
		{2, 2, 3 * ms, 3 * ms, 0, true},      // another thread has its turn
		{2, 2, 3 * ms, 3 * ms, 0.2, true},    //
		{2, 2, 3 * ms, 3 * ms, 0.9, false},   // both loops are on one core
		{2, 2, 0, 6 * ms, 0, true},           //
		{2, 2, 100 * µs, 300 * µs, 0, false}, // a thread that sleeps, and runs soon after it is woken
		{3, 2, 3 * ms, 3 * ms, 0, false},     // half of a core, of two thirds
		{3, 2, 1 * ms, 4 * ms, 0, true},      // less than a third
		{16, 2, 1 * ms, 14 * ms, 0, false},   // sixteen loops: a sixteenth of a core is half of a share
		{16, 2, 1 * ms, 16 * ms, 0, true},
	} {
		t.Run(fmt.Sprintf("%d loops on %d cores, %v delayed for each %v, %v idle", c.loops, c.cores, c.delayed, c.ran, c.idle), func(t *testing.T) {
			k, now := &told{u: Usage{Thread: 7}}, time.Duration(0)
			contention := Contention{Kernel: k}
			contention.SetLoops(c.loops, c.cores)
			if found := pass(&contention, k, &now, 2*idleWindow, c.ran, c.delayed, c.idle); found != c.want {
				t.Errorf("contention found: %v", found)
			}
		})
	}
}

// A thread of the system that has the core now and then, for one or two windows, is no contention.
func TestContentionLastsForSeveralWindows(t *testing.T) {
	k, now := &told{u: Usage{Thread: 7}}, time.Duration(0)
	c := Contention{Kernel: k}
	c.SetLoops(2, 2)
	for range 2 * idleWindow / contentionWindow {
		if pass(&c, k, &now, 2*contentionWindow, 0, contentionWindow, 0) || pass(&c, k, &now, contentionWindow, contentionWindow, 0, 0) {
			t.Fatal("found in two windows of three")
		}
	}
	if !pass(&c, k, &now, 2*idleWindow, 0, contentionWindow, 0) {
		t.Error("not found")
	}
}

// A verdict holds as long as no core is free. Until it is examined, the kernel is not asked.
func TestAVerdictEndsWhenACoreIsFree(t *testing.T) {
	k, now := &told{u: Usage{Thread: 7}}, time.Duration(0)
	c := Contention{Kernel: k}
	c.SetLoops(2, 2)
	if !pass(&c, k, &now, 2*idleWindow, 0, contentionWindow, 0) {
		t.Fatal("not found")
	}
	for range 5 { // the thread sleeps, and the cores are busy
		before := k.asked
		now = c.until - 1
		if !c.Found(now) || k.asked != before {
			t.Error("the verdict ends, or the kernel is asked, before its time")
		}
		if now++; !c.Found(now) {
			t.Fatal("the verdict ends while the cores are busy")
		}
	}
	now = c.until
	k.idling += contentionTime / 2
	if c.Found(now) {
		t.Error("the verdict holds though a core was free")
	}
	if pass(&c, k, &now, 2*idleWindow, contentionWindow, 0, 0) {
		t.Error("found while the thread had its core")
	}
}

// What one thread waited says nothing of another one, and where the kernel does not say what the
// cores do, nothing is found.
func TestContentionIsOfOneThreadAndNeedsTheKernel(t *testing.T) {
	k, now := &told{u: Usage{Thread: 7}}, time.Duration(0)
	c := Contention{Kernel: k}
	c.SetLoops(2, 2)
	for range 2 * idleWindow / contentionWindow {
		k.u.Thread++
		if pass(&c, k, &now, contentionWindow, 0, contentionWindow, 0) {
			t.Fatal("found in the figures of two threads")
		}
	}
	k.idling = -1
	if pass(&c, k, &now, 4*idleWindow, 0, contentionWindow, 0) {
		t.Error("found without the kernel")
	}
}

// The kernel's figures of a thread that computes grow.
func TestTheKernelKnowsWhatAThreadRan(t *testing.T) {
	var k kernel
	defer k.Close()
	first := k.Usage()
	if first.Thread == 0 {
		t.Skip("the kernel does not say what threads run")
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if u := k.Usage(); u.Thread == first.Thread && u.Ran > first.Ran {
			return
		} else if u.Thread != first.Thread {
			first = u
		}
		if time.Now().After(deadline) {
			t.Fatal("the thread computed, and did not run")
		}
	}
}

// The kernel says how long all cores together were idle: at least what the fourth number of "cpu"
// was before.
func TestTheKernelKnowsHowLongTheCoresWereIdle(t *testing.T) {
	text, err := os.ReadFile("/proc/stat")
	var user, nice, system, idle int64
	if err == nil {
		_, err = fmt.Sscanf(string(text), "cpu %d %d %d %d", &user, &nice, &system, &idle)
	}
	if err != nil {
		t.Skipf("the kernel does not say what cores do: %v", err)
	}
	var k kernel
	if got := k.Idle(); got < time.Duration(idle)*10*time.Millisecond {
		t.Errorf("%v, and the fourth number of cpu was %d before", got, idle)
	}
}
