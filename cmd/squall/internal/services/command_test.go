package services

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory"
)

// run executes a command, and returns what it printed.
func run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader("from the input"))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// greet runs a service that greets.
func greet(t *testing.T, r ripc.Resolver, cfg ripc.Config) {
	t.Helper()
	cfg.Resolver = r
	e, err := ripc.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Register(t.Context(), "greeter")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		s.Serve(context.Background(), func(_ context.Context, m *ripc.Message) { m.Reply([]byte("hello, "), m.Data) })
	})
	t.Cleanup(func() { s.Close(); serving.Wait(); e.Close() })
}

// use lists, calls and pings the service with flags that lead to it.
func use(t *testing.T, flags ...string) {
	t.Helper()
	ctx := testutil.Within(t)
	with := func(args ...string) []string { return append(args, flags...) }
	text, err := run(ctx, with("ls", "--json", "greet")...)
	var all []Listed
	if err != nil || json.Unmarshal([]byte(text), &all) != nil || len(all) != 1 || all[0].Service != "greeter" || len(all[0].Places) != 1 {
		t.Errorf("ls: %s, %v", text, err)
	}
	if text, err := run(ctx, with("ls")...); err != nil || !strings.Contains(text, "greeter") {
		t.Errorf("ls: %s, %v", text, err)
	}
	if text, err := run(ctx, with("call", "greeter", "world")...); err != nil || text != "hello, world" {
		t.Errorf("call: %q, %v", text, err)
	}
	if text, err := run(ctx, with("call", "greeter")...); err != nil || text != "hello, from the input" {
		t.Errorf("call: %q, %v", text, err)
	}
	text, err = run(ctx, with("ping", "greeter", "--count", "4", "--interval", "0", "--json")...)
	var p Pinged
	if err != nil || json.Unmarshal([]byte(text), &p) != nil || len(p.TimesNs) != 4 || p.MinNs <= 0 || p.MinNs > p.MedianNs || p.MedianNs > p.MaxNs {
		t.Errorf("ping: %s, %v", text, err)
	}
	if text, err := run(ctx, with("ping", "greeter", "-c", "2", "-i", "0")...); err != nil || !strings.Contains(text, "2 round trips, 0 lost") {
		t.Errorf("ping: %s, %v", text, err)
	}
	for _, args := range [][]string{with("call", "nobody", "x"), with("ping", "nobody"), {"call"}, {"ping", "a", "b"}, with("ping", "greeter", "-c", "0"), with("ls", "--timeout", "-1s", "--directory", "x")} {
		if _, err := run(ctx, args...); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}

func TestServicesOfThisHostAreUsed(t *testing.T) {
	domain := fmt.Sprint(t.Name(), os.Getpid())
	if _, err := ripc.LocalServices(t.Context()); err != nil {
		t.Skip(err)
	}
	greet(t, ripc.OneHost(domain), ripc.Config{Transport: ripc.TransportSHM})
	use(t, "--domain", domain)
}

func TestServicesInADirectoryAreUsed(t *testing.T) {
	ctx, stop := context.WithCancel(testutil.Within(t))
	defer stop()
	r, w := io.Pipe()
	cmd := NewCommand()
	cmd.SetArgs([]string{"directory", "--listen", "127.0.0.1:0", "--dir", t.TempDir()})
	cmd.SetOut(w)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	serving.Go(func() {
		if err := cmd.ExecuteContext(ctx); err == nil || ctx.Err() == nil {
			t.Errorf("the directory ended: %v", err)
		}
		w.Close()
	})
	var addr string
	if _, err := fmt.Fscanf(r, "a directory is at %s\n", &addr); err != nil {
		t.Fatal(err)
	}
	c, err := directory.Dial(ctx, directory.ClientConfig{Addresses: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	greet(t, c, ripc.Config{Listen: "127.0.0.1:0"})
	use(t, "--directory", addr)
}
