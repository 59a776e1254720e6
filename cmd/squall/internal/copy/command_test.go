package copy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/internal/testutil"
)

func TestReceiversAreToldFromFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ args, files, addrs, fault string }{
		{"f a:1", "f", "a:1", ""},
		{"f ./b:2 a:1,b:2 c:3", "f ./b:2", "a:1 b:2 c:3", ""},
		{"x,y a:1", "x,y", "a:1", ""},
		{"f [::1]:80 127.0.0.1:9", "f", "[::1]:80 127.0.0.1:9", ""},
		{"f a:0", "", "", "none of f, a:0 is HOST:PORT"},
		{"f a:http", "", "", "no receiver: none of"},
		{"a:1 b:2", "", "", "nothing to push: name a file"},
		{"f a:1 a:1", "", "", "a:1: is named twice"},
		{"f 127.0.0.1:1 far:1", "", "", "cannot reach the first under that name"},
		{"f a:1,b", "", "", "none of f, a:1,b"},
	} {
		files, addrs, err := sort(strings.Fields(c.args))
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, nothing of %q", c.args, err, c.fault)
			}
			continue
		}
		if err != nil || strings.Join(files, " ") != c.files || strings.Join(addrs, " ") != c.addrs {
			t.Errorf("%s: %q, %q, %v", c.args, files, addrs, err)
		}
	}
	if err := os.WriteFile("a:1", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := sort([]string{"f", "a:1"}); err == nil || !strings.Contains(err.Error(), "write ./a:1 for the file") {
		t.Error(err)
	}
}

func TestAllFaultsOfACommandLineAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	mustRefuse(t, []string{"--schedule hasty: use one of auto, sequential", "--block 1GiB: use 1 to", "--token-file: ", "x:1: is named twice"},
		"--schedule", "hasty", "--block", "1GiB", "--token-file", "/nowhere", "f", "x:1", "x:1")
	empty := t.TempDir()
	mustRefuse(t, []string{"nothing to push, not even a directory"}, empty+"/.", "x:1")
	mustRefuse(t, []string{"missing: no such file"}, filepath.Join(empty, "missing"), "x:1")
}

func TestTheExamplesOfTheHelpAreGood(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cmd     *cobra.Command
		declare func(*pflag.FlagSet)
	}{"cp": {NewCommand(), (&options{}).declare}, "recv": {NewReceiveCommand(), (&receiveOptions{}).declare}} {
		if c.cmd.Name() != name {
			t.Errorf("%s calls itself %s", name, c.cmd.Name())
		}
		for line := range strings.Lines(c.cmd.Example) {
			line, _, _ = strings.Cut(line, "#")
			line, _, _ = strings.Cut(line, "|")
			line, ours := strings.CutPrefix(strings.TrimSpace(line), "squall "+name)
			f := pflag.NewFlagSet(name, pflag.ContinueOnError)
			c.declare(f)
			if err := f.Parse(strings.Fields(line)); ours && (err != nil || f.NArg() == 0) {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestAReceiversJSONIsALineEach(t *testing.T) {
	t.Parallel()
	r := command(t, "recv", "--json", "-q", "--listen", "127.0.0.1:0", t.TempDir())
	out, err := r.StdoutPipe()
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Wait()
	in := json.NewDecoder(out)
	var at struct{ Listening string }
	if err := in.Decode(&at); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, 1000, 1)
	mustCopy(t, path, at.Listening)
	var got Received
	if err := in.Decode(&got); err != nil || got.Bytes != 1000 || got.Files != 1 || got.From == "" || got.Error != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestARefusalInJSONNamesWhoAndWhy(t *testing.T) {
	t.Parallel()
	r := take(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, 1000, 1)
	write(t, filepath.Join(r.dir, "file"), 1000, 1)
	status, out, _ := copied(t, "--json", path, r.addr)
	var got Pushed
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 1 || len(got.Receivers) != 1 || got.Receivers[0].Addr != r.addr ||
		!slices.Equal(got.Receivers[0].Faults, []string{"file exists (--force overwrites)"}) || got.Error == "" {
		t.Errorf("exit status %d: %+v, %v", status, got, err)
	}
}

// certificates are the flags for a machine, of an authority of its own.
func certificates(t *testing.T) []string {
	cert, key, ca := testutil.NewAuthority(t).Files()
	return []string{"--tls-cert", cert, "--tls-key", key, "--tls-ca", ca}
}

func TestWithCertificatesEverythingIsEncryptedAndStrangersAreTurnedAway(t *testing.T) {
	t.Parallel()
	flags := certificates(t)
	all, addrs := takers(t, 2, flags...)
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, 3<<20, 1)
	mustRefuse(t, []string{all[0].addr + ": "}, path, all[0].addr)
	mustRefuse(t, []string{all[0].addr + ": ", "certificate"}, append(certificates(t), path, all[0].addr)...)
	mustCopy(t, append(flags, path, addrs)...)
	for _, r := range all {
		if status, _, errs := r.end(); status != 0 {
			t.Errorf("exit status %d: %s", status, errs)
		}
		sameTree(t, r.dir, filepath.Dir(path))
	}
}
