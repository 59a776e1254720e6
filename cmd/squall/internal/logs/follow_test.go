package logs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// asMember makes this test binary a member of a group: its value is the address where it listens,
// and its directory.
const asMember = "SQUALL_TEST_LOGS_MEMBER"

// runMember says where it listens, and sends each line that it is told. Each is on disk when it
// says so.
func runMember(where string) error {
	addr, dir, _ := strings.Cut(where, " ")
	ctx := context.Background()
	g, err := squall.Open(ctx, squall.Config{
		Cluster: "shop", ID: 1, Listen: addr, Dir: dir, InitialMembers: 1, Logger: slog.New(slog.DiscardHandler), OpenLogs: true,
		Subgroups: []squall.SubgroupConfig{{Name: "orders", Mode: squall.Persistent, Deliver: func(squall.Message) {}}},
	})
	if err != nil {
		return err
	}
	orders, err := g.Subgroup("orders")
	if err != nil {
		return err
	}
	fmt.Println(g.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		f, err := orders.SendFuture(ctx, bytes.Clone(in.Bytes()))
		if err == nil {
			_, err = f.Persisted(ctx, squall.OnEveryDisk)
		}
		if err != nil {
			return err
		}
		fmt.Println("on disk")
	}
	return nil
}

// process is a member in a process of its own.
type process struct {
	*exec.Cmd
	addr string
	in   io.Writer
	out  *bufio.Scanner
}

func startMember(t *testing.T, addr, dir string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(t.Context(), self)}
	p.Env = append(os.Environ(), asMember+"="+addr+" "+dir)
	p.Stderr = os.Stderr
	out, errOut := p.StdoutPipe()
	in, errIn := p.StdinPipe()
	if err := errors.Join(errOut, errIn, p.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.in, p.out = in, bufio.NewScanner(out)
	p.addr = p.line(t)
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the member ended: %v, %v", p.out.Err(), p.Wait())
	}
	return p.out.Text()
}

func (p *process) send(t *testing.T, n int) {
	t.Helper()
	fmt.Fprintln(p.in, n)
	p.line(t)
}

func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

func TestAFollowedMemberMayBeKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startMember(t, "127.0.0.1:0", dir)
	p.send(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	records, out := io.Pipe()
	notes, errs := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := executeWith(ctx, out, errs, "tail", "-f", "--format", "{{.Data}}", p.addr)
		done <- errors.Join(err, out.Close(), errs.Close())
	}()
	lines, told := json.NewDecoder(records), bufio.NewScanner(notes)
	see := func(want int) {
		t.Helper()
		var n int
		if err := lines.Decode(&n); err != nil || n != want {
			t.Fatalf("%d, not %d: %v", n, want, err)
		}
	}
	hear := func(want string) {
		t.Helper()
		if !told.Scan() || !strings.HasPrefix(told.Text(), "squall log tail: "+p.addr+want) {
			t.Fatalf("%q, not %q", told.Text(), want)
		}
	}
	see(0)
	p.send(t, 1)
	see(1)
	p.send(t, 2) // may be on its way when the member is killed
	p.kill()
	hear(" is gone, and looked for until it is back: ")
	p = startMember(t, p.addr, dir)
	p.send(t, 3)
	hear(" is back")
	see(2)
	see(3)
	cancel()
	if told.Scan() || lines.More() {
		t.Errorf("it went on with %q", told.Text())
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestAMemberThatIsNotThereIsNotWaitedForAtFirst(t *testing.T) {
	t.Parallel()
	p := startMember(t, "127.0.0.1:0", t.TempDir())
	p.kill()
	for _, command := range []string{"tail -f", "tail", "cat", "dump", "ls"} {
		began := time.Now()
		_, err := execute(t, append(strings.Fields(command), p.addr)...)
		if err == nil || !strings.Contains(err.Error(), p.addr) || !strings.Contains(err.Error(), "connection refused") || time.Since(began) > 10*time.Second {
			t.Errorf("%s, after %v: %v", command, time.Since(began), err)
		}
	}
}
