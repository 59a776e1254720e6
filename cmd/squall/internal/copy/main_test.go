package copy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
)

// asSquall makes this test binary the commands, in the processes of a test.
const asSquall = "SQUALL_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asSquall) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "squall", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(NewCommand(), NewReceiveCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// command is a process of this command that is gone when the test ends.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asSquall+"=1")
	return cmd
}

// taker is a "squall recv" in a process of its own.
type taker struct {
	*exec.Cmd
	t    *testing.T
	dir  string
	addr string
	out  *bufio.Reader
	errs bytes.Buffer
}

// pacedCopy is a "squall cp" that something happens to.
type pacedCopy struct {
	*exec.Cmd
	out, errs bytes.Buffer
}

// take starts a receiver, and returns when it listens.
func take(t *testing.T, dir string, flags ...string) *taker {
	t.Helper()
	args := append([]string{"recv", "--listen", "127.0.0.1:0", "-q"}, flags...)
	r := &taker{Cmd: command(t, append(args, dir)...), t: t, dir: dir}
	r.Stderr = &r.errs
	pipe, err := r.StdoutPipe()
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Process.Kill(); r.Wait() })
	r.out = bufio.NewReader(pipe)
	line, err := r.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "waiting for a push to ") {
		t.Fatalf("%q, %v, %s", line, err, &r.errs)
	}
	r.addr = strings.TrimSpace(strings.TrimPrefix(line, "waiting for a push to "))
	return r
}

// takers are several, each with a directory of its own.
func takers(t *testing.T, n int, flags ...string) (all []*taker, addrs string) {
	t.Helper()
	var list []string
	for range n {
		r := take(t, t.TempDir(), flags...)
		all, list = append(all, r), append(list, r.addr)
	}
	return all, strings.Join(list, ",")
}

// end waits until the receiver has ended, and returns its status and everything that it still said.
func (r *taker) end() (status int, out, errs string) {
	r.t.Helper()
	hung := time.AfterFunc(20*time.Second, func() { r.Process.Signal(syscall.SIGQUIT) }) // it shows where
	defer hung.Stop()
	rest, _ := io.ReadAll(r.out)
	err := r.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return r.ProcessState.ExitCode(), string(rest), r.errs.String()
}

// well waits for the end of a receiver that must have done well.
func (r *taker) well() {
	r.t.Helper()
	if status, out, errs := r.end(); status != 0 || !strings.HasPrefix(out, "received ") || errs != "" {
		r.t.Fatalf("exit status %d\n%s%s", status, out, errs)
	}
}

// copied runs "squall cp".
func copied(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	cmd := command(t, append([]string{"cp", "-q"}, args...)...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// mustCopy is copied, and succeeds.
func mustCopy(t *testing.T, args ...string) string {
	t.Helper()
	status, out, errs := copied(t, args...)
	if status != 0 || errs != "" {
		t.Fatalf("squall cp %s: exit status %d\n%s%s", strings.Join(args, " "), status, out, errs)
	}
	return out
}

// mustCopyWhenFree is mustCopy to receivers that may be busy until they notice that their last
// caller has gone.
func mustCopyWhenFree(t *testing.T, args ...string) {
	t.Helper()
	eventually(t, "receivers are free", func() bool {
		status, out, errs := copied(t, args...)
		if status != 0 && !strings.Contains(errs, "busy with another push") {
			t.Fatalf("squall cp %s: exit status %d\n%s%s", strings.Join(args, " "), status, out, errs)
		}
		return status == 0
	})
}

// mustRefuse is copied, and fails with all of the words.
func mustRefuse(t *testing.T, words []string, args ...string) {
	t.Helper()
	status, out, errs := copied(t, args...)
	for _, w := range words {
		if status != 1 || !strings.Contains(errs, w) {
			t.Errorf("squall cp %s: exit status %d, nothing of %q in\n%s%s", strings.Join(args, " "), status, w, errs, out)
		}
	}
}

// write makes a file with that many bytes, which a seed determines.
func write(t *testing.T, path string, size int64, seed uint64) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	if _, err := io.CopyN(f, rand.NewChaCha8(key), size); err != nil {
		t.Fatal(err)
	}
}

// isEmpty reports whether a directory has nothing in it. What is below it may change meanwhile.
func isEmpty(t *testing.T, dir string) bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries) == 0
}

// tree describes everything in a directory, contents and times included.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		what := fmt.Sprintf("%v %v", info.Mode(), info.ModTime().UnixNano())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			got[name] = "link to " + to
			return err
		case info.Mode().IsRegular():
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			h := sha256.New()
			n, err := io.Copy(h, f)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %d %x", n, h.Sum(nil))
		}
		got[name] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// sameTree compares two directories.
func sameTree(t *testing.T, got, want string) {
	t.Helper()
	g, w := tree(t, got), tree(t, want)
	wrong := 0
	for name, what := range w {
		if g[name] != what {
			if wrong++; wrong < 5 {
				t.Errorf("%s: %q, not %q", name, g[name], what)
			}
		}
	}
	if len(g) != len(w) {
		t.Errorf("%d files and directories, not %d", len(g), len(w))
	}
}

// mustBeEmpty finds nothing in a directory, hidden or not.
func mustBeEmpty(t *testing.T, dir string) {
	t.Helper()
	if left := tree(t, dir); len(left) > 0 {
		t.Errorf("%s has %v", dir, left)
	}
}

// eventually waits for something that another process does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
