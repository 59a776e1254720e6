package logs

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/logwire"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

var update = flag.Bool("update", false, "write what was printed to testdata")

func TestMain(m *testing.M) {
	testutil.BecomeProgramOf(runMember)
	goleak.VerifyTestMain(m)
}

// execute runs "squall log" as a person does, and returns what it printed on standard output.
func execute(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	err = executeTo(t.Context(), &b, args...)
	return b.String(), err
}

func executeTo(ctx context.Context, out io.Writer, args ...string) error {
	return executeWith(ctx, out, io.Discard, args...)
}

// executeWith has standard error, too.
func executeWith(ctx context.Context, out, errs io.Writer, args ...string) error {
	root := &cobra.Command{Use: "squall", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(NewCommand())
	root.SetArgs(append([]string{"log"}, args...))
	root.SetOut(out)
	root.SetErr(errs)
	return root.ExecuteContext(ctx)
}

// must is execute of what succeeds.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := execute(t, args...)
	if err != nil {
		t.Fatalf("squall log %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// sizes are figures that depend on the engine's files.
var sizes = regexp.MustCompile(`\d+(\.\d+)? [kMG]?B`)

// golden compares with a file of testdata. Names of directories of this test do not count.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, os.TempDir()+"/", "")
	got = regexp.MustCompile(`Test\w+/\d+/`).ReplaceAllString(got, "")
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is printed differently (-args -update writes it):\n%s", file, got)
	}
}

// orders is the log that most tests read.
var orders = persist.LogID{Name: "orders"}

// noon is the time of its first record; each of the others is a second later.
const noon order.Time = 1_772_625_600_000_000_000 // 2026-03-04T12:00:00Z

func record(n int) persist.Record {
	data := fmt.Appendf(nil, "order %d", n)
	if n%10 == 9 {
		data = []byte{0xff, byte(n), '\n'}
	}
	return persist.Record{
		Version: order.Version{View: order.ViewID(1 + n/10), Seq: order.Seq(3 * (n % 10))}, Time: noon + order.Time(n)*1_000_000_000,
		Sender: order.NodeID(1 + n%3), Data: data,
	}
}

func records(n int) (all []persist.Record) {
	for i := range n {
		all = append(all, record(i))
	}
	return all
}

// keyOf is a node's key, the same in every run.
func keyOf(node order.NodeID) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(node)}, ed25519.SeedSize))
}

// opened opens a member's directory and the log in it.
func opened(t *testing.T, dir string, node order.NodeID, c persist.LogConfig) (*persist.Store, *persist.Log) {
	t.Helper()
	s, err := persist.Open(t.Context(), persist.Config{Dir: dir, Cluster: "shop", Node: node})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Log(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

// put imports records, a group for each, so that what is on disk does not depend on how fast it
// was.
func put(t *testing.T, l *persist.Log, all ...persist.Record) {
	t.Helper()
	for _, r := range all {
		if err := l.Import(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// stopped makes the directory of a member that has stopped.
func stopped(t *testing.T, name string, node order.NodeID, c persist.LogConfig, all ...persist.Record) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	s, l := opened(t, dir, node, c)
	put(t, l, all...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// running is a member that runs, and serves one log.
func running(t *testing.T, all ...persist.Record) (addr string, l *persist.Log) {
	t.Helper()
	return settling(t, nil, all...)
}

// history is the identity of the group that has the logs.
const history = "XV2QM7TZ4KBRN5W3JYHD6CPAEL"

// inGroup lets a member that has stopped know that it was in the group.
func inGroup(t *testing.T, dir string, node order.NodeID) {
	t.Helper()
	self := views.Member{ID: node, Incarnation: 7, Addr: "10.0.0.1:1"}
	v := (&views.View{ID: 3, Cluster: "shop", Members: []views.Member{self}}).WithKey("k")
	v.Bootstrap(history, views.NewSecret("secret"))
	s, err := persist.Open(t.Context(), persist.Config{Dir: dir, Cluster: "shop", Node: node})
	if err != nil {
		t.Fatal(err)
	}
	m, err := restart.Load(s)
	if err == nil {
		err = m.Begin(self)
	}
	if err == nil {
		err = m.Enter(v, nil)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// settling is one that answers what is asked by time when a function says so.
func settling(t *testing.T, settle func(context.Context, order.Time) error, all ...persist.Record) (addr string, l *persist.Log) {
	t.Helper()
	s, l := opened(t, t.TempDir(), 1, persist.LogConfig{ID: orders})
	put(t, l, all...)
	p, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	server := logwire.NewServer(logwire.ServerConfig{
		Cluster: "shop", List: func() []persist.LogID { return []persist.LogID{orders} },
		Identity: func() (string, views.Secret) { return history, views.Secret{} },
		Find: func(id persist.LogID) *persist.Log {
			if id == orders {
				return l
			}
			return nil
		},
		Settle: func(ctx context.Context, _ persist.LogID, at order.Time) error {
			if settle == nil {
				return nil
			}
			return settle(ctx, at)
		},
	})
	p.Handle(port.KindLog, server.Serve)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return p.Addr(), l
}

// keyFile has the public keys of nodes.
func keyFile(t *testing.T, nodes ...order.NodeID) string {
	t.Helper()
	text := "# who   public key\n"
	for _, n := range nodes {
		text += fmt.Sprintf("%d %s\n", n, hex.EncodeToString(keyOf(n).Public().(ed25519.PublicKey)))
	}
	name := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
