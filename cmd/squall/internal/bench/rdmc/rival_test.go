package rdmc

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/netlab"
)

// hosts are a lab for rivals, which are started with two more commands.
func hosts(t *testing.T, n int) *netlab.Lab {
	t.Helper()
	for _, name := range []string{"nsenter", "unshare"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	l, err := netlab.New(netlab.Config{Hosts: n, Rate: netlab.Gbit})
	if errors.Is(err, netlab.ErrUnavailable) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestARivalRunsOnTheHostsAndIsEndedWithItsFigure(t *testing.T) {
	t.Parallel()
	l := hosts(t, 2)
	// It says what its first host is, starts something on the second one through the agent, says
	// its figure and never ends.
	script := `ip -o -4 addr show dev eth0; "$0" -x "$1" 'hostname; sleep 1000 >/dev/null 2>&1 &'; echo "median_s=0.250000	ok"; sleep 1000`
	r := rival{Name: "it", Program: "true", args: func(l launch) []string {
		return []string{"sh", "-c", script, l.agent, strings.Split(l.hosts, ",")[1]}
	}}
	c := Case{Nodes: 2, Bytes: 125_000_000, Rate: netlab.Gbit, MPI: &r}
	run, err := r.run(t.Context(), l, c)
	if err != nil || run.Seconds != 0.25 || run.Ideal != 0.25 {
		t.Errorf("%+v, %v", run, err)
	}
	if left, err := processes(l); err != nil || len(left) > 0 {
		t.Errorf("%v still run, %v", left, err)
	}
}

func TestARivalThatFailsSaysWhatItSaid(t *testing.T) {
	t.Parallel()
	l := hosts(t, 1)
	r := rival{Name: "it", args: func(launch) []string { return []string{"sh", "-c", "echo no such luck; exit 3"} }}
	if _, err := r.run(t.Context(), l, Case{Nodes: 1, Bytes: 1, Rate: netlab.Gbit}); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("%v", err)
	}
	if _, err := r.run(t.Context(), nil, Case{}); !errors.Is(err, errNoLab) {
		t.Errorf("without a lab: %v", err)
	}
}
