package demo

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
)

func TestTheMemberThatWentFirstIsNamed(t *testing.T) {
	exit := func(e proc.Exit) func(*process) {
		return func(p *process) {
			e := e
			e.Role, e.ID, e.Pid = "member", p.number, 99+p.number
			p.end = &e
		}
	}
	killed, failed := exit(proc.Exit{Signal: syscall.SIGKILL}), exit(proc.Exit{Code: 2, Stderr: []string{"panic: no"}})
	ended := func(p *process) { p.end = io.EOF }
	says := func(p *process) { p.said = "gone" }
	lives := func(*process) {}
	for _, c := range []struct {
		name      string
		members   [3]func(*process)
		explained bool
		want      string
	}{
		{"killed, and all others notice", [3]func(*process){says, killed, says}, true,
			"member 2 (pid 101) was killed by signal 9 (killed); members 1 and 3 report: gone"},
		{"killed, and no member notices yet", [3]func(*process){killed, lives, lives}, false, "member 1 (pid 100) was killed by signal 9 (killed)"},
		{"two are killed", [3]func(*process){killed, says, killed}, true,
			"member 1 (pid 100) was killed by signal 9 (killed)\nmember 3 (pid 102) was killed by signal 9 (killed); member 2 reports: gone"},
		{"others end with it", [3]func(*process){failed, killed, ended}, true, "member 2 (pid 101) was killed by signal 9 (killed)"},
		{"a panic", [3]func(*process){says, says, failed}, true, "member 3 (pid 102) ended with exit status 2: panic: no; members 1 and 2 report: gone"},
		{"hung", [3]func(*process){says, lives, says}, false, "members 1 and 3 report: gone"},
		{"left early", [3]func(*process){says, lives, ended}, false, "node 3 (process 3) ended too early; member 1 reports: gone"},
		{"nothing", [3]func(*process){lives, lives, lives}, false, "the demo ended early, and no member says why"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(&trial{}, text{})
			for i, happens := range c.members {
				p := &process{number: i + 1, id: squall.NodeID(i + 1)}
				happens(p)
				r.processes = append(r.processes, p)
			}
			if r.explained() != c.explained {
				t.Errorf("explained: %v", r.explained())
			}
			if got := blame(r.processes).Error(); got != c.want {
				t.Errorf("%s\nnot\n%s", got, c.want)
			}
		})
	}
	if err := blame([]*process{{end: &proc.Exit{Err: syscall.ECHILD}}}); !errors.Is(err, syscall.ECHILD) {
		t.Error(err)
	}
}

func TestMembersAreListedAsInASentence(t *testing.T) {
	for want, ids := range map[string][]int{"member 1 has": {1}, "members 1 and 2 have": {1, 2}, "members 1, 2 and 10 have": {1, 2, 10}} {
		if got := those(ids, "has", "have"); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
