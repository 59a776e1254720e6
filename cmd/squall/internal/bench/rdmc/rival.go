package rdmc

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/squall-go/squall/internal/netlab"
)

// rival is a program that broadcasts with MPI, and how to start it on the hosts of a lab.
type rival struct {
	Name    string `json:"name"`
	Program string `json:"program"` // called with "bcast BYTES RUNS"; prints median_s=SECONDS
	args    func(l launch) []string
	env     []string
}

// launch is what a rival is started with.
type launch struct {
	nodes        int
	hosts, agent string
}

// rivals returns the rivals of which a directory has a program. OpenMPI is measured with the
// algorithm that it chooses itself, and with the chain that suits large messages.
func rivals(dir string) ([]rival, error) {
	if dir == "" {
		return nil, nil
	}
	var found []rival
	for _, r := range []rival{
		{Name: "OpenMPI", Program: "bcast_ompi", args: openMPI()},
		{Name: "OpenMPI, chain of 128 KiB", Program: "bcast_ompi", args: openMPI("--mca", "coll_tuned_use_dynamic_rules", "1",
			"--mca", "coll_tuned_bcast_algorithm", "3", "--mca", "coll_tuned_bcast_algorithm_segmentsize", "131072",
			"--mca", "coll_tuned_bcast_algorithm_chain_fanout", "1")},
		{Name: "MPICH", Program: "bcast_mpich", args: mpich, env: []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0"}},
	} {
		r.Program = filepath.Join(dir, r.Program)
		if _, err := os.Stat(r.Program); err == nil {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("--mpi %s: neither bcast_ompi nor bcast_mpich is there", dir)
	}
	return found, nil
}

// openMPI is the command line of OpenMPI's launcher. It must use the hosts' network alone, and
// yield: there are more processes than cores.
func openMPI(extra ...string) func(launch) []string {
	return func(l launch) []string {
		args := []string{
			"mpirun.openmpi", "--allow-run-as-root", "-np", strconv.Itoa(l.nodes), "--host", l.hosts, "--map-by", "node", "--bind-to", "none",
			"--mca", "plm_rsh_agent", l.agent, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "oob_tcp_if_include", "eth0",
			"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1",
		}
		return append(args, extra...)
	}
}

// mpich is the same for MPICH, whose transport would find shared memory on its own.
func mpich(l launch) []string {
	return []string{
		"mpirun.mpich", "-launcher", "ssh", "-launcher-exec", l.agent, "-iface", "eth0", "-hosts", l.hosts, "-ppn", "1", "-np", strconv.Itoa(l.nodes),
	}
}

// agentText is a stand-in for ssh: it skips options, takes the host's address, and runs the rest of
// its line there, under a host name of its own, because launchers take processes of one name to be
// on one host.
const agentText = `#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in -[lpioF]) shift 2;; -*) shift;; *) break;; esac; done
host=${1#*@}; shift
case $host in
%s*) echo "no host $host" >&2; exit 1;;
esac
exec nsenter --net="$ns" unshare --uts /bin/sh -c 'hostname "$0"; exec /bin/sh -c "$1"' "$name" "$*"
`

// writeAgent writes the stand-in for the hosts of a lab.
func writeAgent(path string, l *netlab.Lab) error {
	var hosts strings.Builder
	for i, h := range l.Hosts {
		fmt.Fprintf(&hosts, "%s) ns=%s; name=host%d;;\n", h.Addr, h.Path(), i)
	}
	return os.WriteFile(path, fmt.Appendf(nil, agentText, hosts.String()), 0o755)
}

var (
	medianText  = regexp.MustCompile(`median_s=([0-9.]+)`)
	errNoLab    = errors.New("MPI is measured in a lab only")
	errNoMedian = errors.New("it says no median")
	errStay     = errors.New("processes of MPI do not end")
)

// rivalRuns is how often a rival measures in one run.
const rivalRuns = 3

// run runs the rival once in a lab; its figure is its own median.
func (r *rival) run(ctx context.Context, l *netlab.Lab, c Case) (Run, error) {
	if l == nil {
		return Run{}, errNoLab
	}
	dir, err := os.MkdirTemp("", "squall-bench-")
	if err != nil {
		return Run{}, err
	}
	defer os.RemoveAll(dir)
	agent := filepath.Join(dir, "agent")
	if err := writeAgent(agent, l); err != nil {
		return Run{}, err
	}
	var hosts []string
	for _, h := range l.Hosts {
		hosts = append(hosts, h.Addr)
	}
	args := r.args(launch{nodes: c.Nodes, hosts: strings.Join(hosts, ","), agent: agent})
	args = append(args, r.Program, "bcast", strconv.Itoa(c.Bytes), strconv.Itoa(rivalRuns))
	out, err := r.call(ctx, l, agent, append([]string{hosts[0]}, quoted(args)...))
	text := medianText.FindStringSubmatch(out)
	if errors.Is(err, errStay) {
		return Run{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	if text == nil || !strings.Contains(out, "\tok") {
		return Run{}, fmt.Errorf("%s: %w: %s", r.Name, cmp.Or(err, errNoMedian), strings.TrimSpace(out))
	}
	s, err := strconv.ParseFloat(text[1], 64)
	return Run{Seconds: s, Ideal: s / c.ideal().Seconds(), PeakBytes: -1}, err
}

// quoted are words as a shell takes them.
func quoted(words []string) (all []string) {
	for _, w := range words {
		all = append(all, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return all
}

// call runs the launcher on the first host, as its agent would, and returns what it printed, up to
// the line with its figure. It does not wait for the end, which with some of them does not come,
// but ends all that it left on the hosts.
func (r *rival) call(ctx context.Context, l *netlab.Lab, agent string, args []string) (out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	members, err := processes(l)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, agent, args...)
	cmd.Env = append(append(os.Environ(), "OMPI_MCA_mpi_yield_when_idle=1"), r.env...)
	cmd.WaitDelay = time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(stdout); !medianText.MatchString(out) && lines.Scan(); {
		out += lines.Text() + "\n"
	}
	cancel()
	return out, errors.Join(cmd.Wait(), endOthers(l, members))
}

// processes are all that are on the hosts of a lab.
func processes(l *netlab.Lab) (all []int, err error) {
	for _, h := range l.Hosts {
		pids, err := h.Processes()
		if err != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	return all, nil
}

// endOthers ends what is on the hosts of a lab next to the members, until nothing is.
func endOthers(l *netlab.Lab, members []int) error {
	for range endTries {
		pids, err := processes(l)
		if err != nil {
			return err
		}
		pids = slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(members, pid) })
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
		time.Sleep(endPause)
	}
	return errStay
}

// How often, and how far apart, processes are ended.
const (
	endTries = 100
	endPause = 20 * time.Millisecond
)
