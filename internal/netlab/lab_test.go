//go:build linux

package netlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/squall-go/squall/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.Overlap(5)
	goleak.VerifyTestMain(m)
}

// lab makes hosts, or says why there are none.
func lab(t *testing.T, c Config) *Lab {
	t.Helper()
	l, err := New(c)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// connect makes a connection from one host to another.
func connect(t *testing.T, from, to *Host, within time.Duration) (here, there net.Conn, err error) {
	t.Helper()
	var listener net.Listener
	if err := to.Do(func() (err error) {
		listener, err = net.Listen("tcp", to.Addr+":0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = from.Do(func() (err error) {
		here, err = net.DialTimeout("tcp", listener.Addr().String(), within)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if there, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here, there, nil
}

// measure is the rate at which bytes arrive, once the first burst is through, over that at which a
// link of this rate carries them.
func measure(t *testing.T, from, to *Host, link Rate) float64 {
	t.Helper()
	here, there, err := connect(t, from, to, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	const first, measured = 1 << 20, 2 << 20
	sent := make(chan error, 1)
	go func() {
		_, err := here.Write(make([]byte, first+measured))
		sent <- err
	}()
	there.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.CopyN(io.Discard, there, first); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := io.CopyN(io.Discard, there, measured); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return measured / took.Seconds() / (link.BytesPerSecond() * Goodput)
}

// about fails the test unless a link carries its rate. A machine that is busy delays the sender, so
// that bytes come at less than the rate, or the reader, so that it finds more than that. A link of
// another rate is off each time, so one good measurement within the patience is enough.
func about(t *testing.T, what string, from, to *Host, link Rate) {
	t.Helper()
	const patience = 30 * time.Second
	var shares []float64
	for start := time.Now(); time.Since(start) < patience; {
		share := measure(t, from, to, link)
		if shares = append(shares, share); share >= 0.8 && share <= 1.15 {
			t.Logf("%s: %.3f of the rate", what, share)
			return
		}
	}
	t.Errorf("%s: another rate in each of %d measurements: %.3f", what, len(shares), shares)
}

func TestALinkCarriesItsRateEachWay(t *testing.T) {
	t.Parallel()
	const rate = 80 * Mbit
	l := lab(t, Config{Hosts: 3, Rate: rate})
	about(t, "there", l.Hosts[0], l.Hosts[1], rate)
	about(t, "back", l.Hosts[1], l.Hosts[0], rate)
}

func TestTwoThatSendToOneHostShareItsLink(t *testing.T) {
	t.Parallel()
	const rate = 100 * Mbit
	l := lab(t, Config{Hosts: 3, Rate: rate})
	start := time.Now()
	shares := make(chan float64, 2)
	for _, from := range l.Hosts[1:] {
		go func() { shares <- measure(t, from, l.Hosts[0], rate) }()
	}
	<-shares
	<-shares
	// What passed in bursts at the start was not in time.
	if share := 2 * 2 << 20 / time.Since(start).Seconds() / (rate.BytesPerSecond() * Goodput); share > 1.15 {
		t.Errorf("two that send to one host have %.2f of its link", share)
	}
}

func TestOneDirectionOfOneLinkCanBeSlow(t *testing.T) {
	t.Parallel()
	const rate, slow = 100 * Mbit, 40 * Mbit
	l := lab(t, Config{Hosts: 3, Rate: rate})
	for range 2 { // the second time nothing changes
		if err := l.LimitLink(l.Hosts[0], l.Hosts[1], slow); err != nil {
			t.Fatal(err)
		}
	}
	about(t, "the slow direction", l.Hosts[0], l.Hosts[1], slow)
	about(t, "the other direction", l.Hosts[1], l.Hosts[0], rate)
	about(t, "to another host", l.Hosts[0], l.Hosts[2], rate)
	if err := l.LimitLink(l.Hosts[0], l.Hosts[1], rate); err != nil {
		t.Fatal(err)
	}
	about(t, "not slow any more", l.Hosts[0], l.Hosts[1], rate)
}

func TestAHostCanBeSlow(t *testing.T) {
	t.Parallel()
	const rate, slow = 100 * Mbit, 40 * Mbit
	l := lab(t, Config{Hosts: 3, Rate: rate})
	if err := l.LimitHost(l.Hosts[1], slow); err != nil {
		t.Fatal(err)
	}
	about(t, "to it", l.Hosts[0], l.Hosts[1], slow)
	about(t, "from it", l.Hosts[1], l.Hosts[2], slow)
	about(t, "past it", l.Hosts[0], l.Hosts[2], rate)
	if err := l.LimitHost(l.Hosts[0], 0); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("a rate of nothing: %v", err)
	}
}

func TestACutIsOneWayUntilItHeals(t *testing.T) {
	t.Parallel()
	l := lab(t, Config{Hosts: 3})
	const patience = 10 * time.Second
	within := func(from, to *Host, d time.Duration) bool {
		_, _, err := connect(t, from, to, d)
		return err == nil
	}
	reaches := func(from, to *Host) bool { return within(from, to, patience) }
	cut := func(from, to *Host) bool { return !within(from, to, 200*time.Millisecond) }
	here, there, err := connect(t, l.Hosts[0], l.Hosts[1], patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Cut(l.Hosts[0], l.Hosts[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Write([]byte("still")); err != nil { // no process is told
		t.Fatal(err)
	}
	here.SetDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(here, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if !cut(l.Hosts[0], l.Hosts[1]) || !reaches(l.Hosts[0], l.Hosts[2]) {
		t.Error("the cut is not between two hosts")
	}
	if err := errors.Join(l.Heal(l.Hosts[0], l.Hosts[1]), l.Partition(l.Hosts[2])); err != nil {
		t.Fatal(err)
	}
	if !reaches(l.Hosts[0], l.Hosts[1]) || !cut(l.Hosts[0], l.Hosts[2]) || !cut(l.Hosts[2], l.Hosts[1]) {
		t.Error("the partition is not of host 2")
	}
	if err := l.HealPartition(l.Hosts[2]); err != nil {
		t.Fatal(err)
	}
	if !reaches(l.Hosts[0], l.Hosts[2]) || !reaches(l.Hosts[2], l.Hosts[1]) {
		t.Error("the partition did not heal")
	}
}

func TestACommandRunsOnItsHost(t *testing.T) {
	l := lab(t, Config{Hosts: 2})
	out, err := l.Hosts[1].Run(t.Context(), "ip", "-o", "-4", "addr", "show", "dev", device)
	if err != nil || !strings.Contains(string(out), l.Hosts[1].Addr+"/") {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := l.Hosts[1].Run(t.Context(), "ip", "link", "show", "dev", "nothing"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a command that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Hosts[0].Run(ctx, "ip", "monitor"); err == nil {
		t.Error("a command ran for a process that had left")
	}
}

func TestTheProcessesOfAHostAreKnown(t *testing.T) {
	l := lab(t, Config{Hosts: 2})
	cmd := exec.CommandContext(t.Context(), "ip", "monitor")
	if err := l.Hosts[0].Start(cmd); err != nil {
		t.Fatal(err)
	}
	there, err := l.Hosts[0].Processes()
	elsewhere, otherErr := l.Hosts[1].Processes()
	if errors.Join(err, otherErr) != nil || !slices.Equal(there, []int{cmd.Process.Pid}) || len(elsewhere) > 0 {
		t.Errorf("%v there and %v elsewhere, %v, %v; want process %d there", there, elsewhere, err, otherErr, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

func TestNothingIsMadeHereAndNothingStays(t *testing.T) {
	devices := func() string {
		all, err := net.Interfaces()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(all)
	}
	before := devices()
	l := lab(t, Config{Hosts: 2, Rate: Gbit})
	if during := devices(); during != before {
		t.Errorf("there were %s, now %s", before, during)
	}
	path := l.Hosts[0].Path()
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := os.Open(path); err == nil {
		f.Close()
		t.Errorf("%s is there still", path)
	}
}

func TestWhereACommandIsMissingTheErrorNamesIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := New(Config{Hosts: 2})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "command tc") || !strings.Contains(err.Error(), "command ip") {
		t.Errorf("%v", err)
	}
}
