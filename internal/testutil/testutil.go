// Package testutil has what the tests of several packages need: certificates, addresses, and bounds
// for what has to happen.
package testutil

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what has to happen, on a machine that has other work as
// well.
const patience = time.Minute

// Within returns a context for what has to happen soon. It ends with the test.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Overlap lets so many tests of a package run at the same time, unless the command line says how
// many (-parallel). A TestMain calls it for a package whose tests wait for disks, processes and
// timers more than they compute.
func Overlap(tests int) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		_ = flag.Set("test.parallel", strconv.Itoa(max(tests, runtime.GOMAXPROCS(0)))) // a number is valid
	}
}

// Reopen opens something at an address that was closed before, and fails the test if it cannot. A
// process that another test starts has all sockets of this one until it runs its own program, so
// the address may be in use for a moment.
func Reopen[T any](t testing.TB, open func(context.Context) (T, error)) T {
	t.Helper()
	ctx := Within(t)
	for {
		v, err := open(ctx)
		if err == nil {
			return v
		}
		if !errors.Is(err, syscall.EADDRINUSE) || ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

var ports atomic.Uint32 // that FreeAddress has tried

// FreeAddress returns an address on loopback on which no process listens. Its port is even, and
// below the ports that Linux gives to sockets without one. The port after it is held until the test
// ends, so that no other call takes the address before it is used, in this process or in another.
func FreeAddress(t testing.TB) string {
	t.Helper()
	const first, count, each = 10_000, 10_000, 32
	for range count {
		port := first + 2*((uint32(os.Getpid())*each+ports.Add(1))%count)
		held, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			_ = held.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = held.Close() })
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

// Seed returns the seed of a test that draws at random, and logs it. It is 1, so that a run is like
// the one before, or what the environment variable TEST_SEED says: a number, or "new" for another
// one in each test.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	switch text := os.Getenv("TEST_SEED"); text {
	case "":
	case "new":
		seed = rand.Uint64()
	default:
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatalf("TEST_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("TEST_SEED=%d", seed)
	return seed
}
