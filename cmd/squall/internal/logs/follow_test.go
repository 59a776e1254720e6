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
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

// runMember is a member of a group, with the address where it listens and its directory as
// arguments. It says where it listens, and sends each line that it is told. Each is on disk when it
// says so.
func runMember(args []string) error {
	addr, dir := args[0], args[1]
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
	*testutil.Program
	addr string
}

func startMember(t *testing.T, addr, dir string) *process {
	t.Helper()
	p := testutil.StartProgram(t, addr, dir)
	return &process{p, p.Next()}
}

func (p *process) send(n int) { p.Ask(fmt.Sprint(n), "on disk") }

func TestAFollowedMemberMayBeKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startMember(t, "127.0.0.1:0", dir)
	p.send(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	records, out := io.Pipe()
	notes, errs := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := executeWith(ctx, out, errs, "tail", "-f", "--format", "{{.Data}}", p.addr)
		done <- errors.Join(err, out.Close(), errs.Close())
	}()
	seen, told := make(chan int, 10), bufio.NewScanner(notes)
	go func() {
		defer close(seen)
		var n int
		for lines := json.NewDecoder(records); lines.Decode(&n) == nil; {
			seen <- n
		}
	}()
	see := func(want int) {
		t.Helper()
		if n, more := <-seen; !more || n != want {
			t.Fatalf("%d, not %d; more: %v", n, want, more)
		}
	}
	hear := func(want string) {
		t.Helper()
		if !told.Scan() || !strings.HasPrefix(told.Text(), "squall log tail: "+p.addr+want) {
			t.Fatalf("%q, not %q", told.Text(), want)
		}
	}
	see(0)
	p.send(1)
	see(1)
	p.send(2) // may be on its way when the member is killed
	p.Kill()
	hear(" is gone, and looked for until it is back: ")
	p = startMember(t, p.addr, dir)
	p.send(3)
	hear(" is back")
	see(2)
	see(3)
	cancel()
	if n, more := <-seen; told.Scan() || more {
		t.Errorf("it went on with %d, %q", n, told.Text())
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestAMemberThatIsNotThereIsNotWaitedForAtFirst(t *testing.T) {
	t.Parallel()
	p := startMember(t, "127.0.0.1:0", t.TempDir())
	p.Kill()
	for _, command := range []string{"tail -f", "tail", "cat", "dump", "ls"} {
		err := executeWith(testutil.Within(t), io.Discard, io.Discard, append(strings.Fields(command), p.addr)...)
		if err == nil || !strings.Contains(err.Error(), p.addr) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: %v", command, err)
		}
	}
}
