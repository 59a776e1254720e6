package logs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

func TestADirectoryAndAMemberAreListedAlike(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	inGroup(t, dir, 1)
	addr, _ := running(t, records(25)...)
	text := sizes.ReplaceAllStringFunc(must(t, "ls", dir), func(s string) string { return strings.Repeat("#", len(s)) })
	golden(t, "ls", text)
	var fromDir, fromMember Listing
	for target, r := range map[string]*Listing{dir: &fromDir, addr: &fromMember} {
		if err := json.Unmarshal([]byte(must(t, "ls", "--json", target)), r); err != nil {
			t.Fatal(err)
		}
		if e := r.Logs[0]; r.Target != target || r.Group != history || e.Records != 25 || e.Last.Version != "3:12" || e.Log != "orders.0" || e.OnDisk == 0 {
			t.Errorf("%+v", r)
		}
	}
	if a, b := fromDir.Logs[0], fromMember.Logs[0]; *a.First != *b.First || *a.Last != *b.Last || a.Bytes != b.Bytes {
		t.Errorf("%+v is not %+v", a, b)
	}
	empty := stopped(t, "empty", 1, persist.LogConfig{ID: persist.LogID{Name: "prices", Shard: 2}})
	if out := must(t, "ls", empty); !strings.Contains(out, "prices.2") || strings.Contains(out, "group") {
		t.Error(out)
	}
}

func TestAListingSaysWhatIsOnAllDisksAndInASnapshot(t *testing.T) {
	t.Parallel()
	addr, l := running(t, records(25)...)
	if out := must(t, "ls", addr); strings.Contains(out, "on all disks") || strings.Contains(out, "snapshot") {
		t.Errorf("columns in which nothing stands:\n%s", out)
	}
	l.SetGlobal(record(20).Version)
	if err := l.Snapshot(record(9).Version, func(w io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	golden(t, "ls-all", sizes.ReplaceAllStringFunc(must(t, "ls", addr), func(s string) string { return strings.Repeat("#", len(s)) }))
	var r Listing
	if err := json.Unmarshal([]byte(must(t, "ls", "--json", addr)), &r); err != nil || r.Logs[0].Global != "3:0" || r.Logs[0].Snapshot != "1:27" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRecordsArePrintedAsChosen(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	addr, _ := running(t, records(25)...)
	for name, flags := range map[string]string{
		"all": "", "view": "--from 2 --to 3", "version": "--version 2:9", "at": "--at 2026-03-04T12:00:05.5Z",
		"since": "--since 2026-03-04T12:00:22Z", "until": "--until '2026-03-04 12:00:02'", "limit": "--from 1:20 --limit 3",
		"hex": "--hex --limit 2 --from 1:24", "raw": "--raw --limit 3", "json": "--json --from 3:9", "nothing": "--from 9",
		"format": "--format {{.Number}}:{{.View}}/{{.Seq}}/{{.Sender}}/{{.Bytes}}/{{.Hex}}/{{.Data}} --limit 2",
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"cat"}, split(flags)...)
			offline := must(t, append(args, dir)...)
			golden(t, "cat-"+name, offline)
			if live := must(t, append(args, addr, "orders")...); live != offline {
				t.Errorf("a member says\n%s\nand its directory\n%s", live, offline)
			}
		})
	}
}

// split takes a line apart as a shell does, but for escapes.
func split(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

func TestLongDataIsCutOnALineAndNowhereElse(t *testing.T) {
	t.Parallel()
	r := record(0)
	r.Data = []byte(strings.Repeat("ä", 200))
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, r)
	if out := must(t, "cat", dir); !strings.HasSuffix(out, strings.Repeat("ä", 128)+" … 144 more bytes\n") {
		t.Error(out)
	}
	if out := must(t, "cat", "--raw", dir); out != string(r.Data) {
		t.Error(out)
	}
}

func TestTheLastRecordsArePrinted(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	addr, _ := running(t, records(25)...)
	format := []string{"--format", "{{.Number}}"}
	for _, target := range []string{dir, addr} {
		for flags, want := range map[string]string{
			"": "15 16 17 18 19 20 21 22 23 24", "-n 3": "22 23 24", "-n 0": "", "-n 1": "24",
			"-n 24": numbers(1, 25), "-n 25": numbers(0, 25), "-n 1000": numbers(0, 25),
		} {
			got := must(t, append(append([]string{"tail", target}, format...), strings.Fields(flags)...)...)
			if strings.Join(strings.Fields(got), " ") != want {
				t.Errorf("tail %s %s: %q", target, flags, got)
			}
		}
	}
	if _, err := execute(t, "tail", "-f", dir); !errors.Is(err, errStill) {
		t.Error(err)
	}
}

func TestTheLastRecordsEndWhereTheLogEndedWhenItWasAsked(t *testing.T) {
	t.Parallel()
	addr, l := running(t, records(25)...)
	way := target{timeout: time.Minute}
	from, log, err := way.chosen(t.Context(), []string{addr})
	if err != nil {
		t.Fatal(err)
	}
	for n := 25; n < 30; n++ { // it grows meanwhile
		put(t, l, record(n))
	}
	var got []uint64
	err = tail(t.Context(), from, &log, 2, false, nil, func(r *persist.Record) error {
		got = append(got, r.Number)
		return nil
	})
	if err != nil || !slices.Equal(got, []uint64{23, 24}) {
		t.Error(got, err)
	}
}

func numbers(from, to int) string {
	var all []string
	for n := from; n < to; n++ {
		b, _ := json.Marshal(n)
		all = append(all, string(b))
	}
	return strings.Join(all, " ")
}

func TestAFollowedLogIsPrintedAsItGrows(t *testing.T) {
	t.Parallel()
	addr, l := running(t, records(25)...)
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := executeTo(ctx, in, "tail", "-f", "-n", "2", "--format", "{{.Number}}", addr)
		in.Close()
		done <- err
	}()
	lines := json.NewDecoder(out)
	for want := 23; want < 40; want++ {
		if want >= 25 {
			put(t, l, record(want))
		}
		var n int
		if err := lines.Decode(&n); err != nil || n != want {
			t.Fatal(n, err)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestMistakesAreExplained(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(3)...)
	s, _ := opened(t, dir, 1, persist.LogConfig{ID: persist.LogID{Name: "orders", Shard: 1}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("1 abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"ls nowhere":                             "nowhere: neither a directory nor HOST:PORT",
		"ls " + file:                             "is a file; name the directory",
		"ls " + t.TempDir():                      "no store of Squall is here",
		"ls 127.0.0.1:1":                         "connection refused",
		"cat " + dir:                             "has several logs, say which one: orders.0, orders.1",
		"cat " + dir + " orders":                 "has several logs",
		"cat " + dir + " order":                  `has no log "order"; there are orders.0, orders.1`,
		"cat --version 9:9 " + dir + " orders.0": "no such record",
		"cat --from x " + dir:                    `--from: "x" is no version: use VIEW:SEQ`,
		"cat --from 3 --to 2 " + dir:             "nothing lies between",
		"cat --from 1 --at now " + dir:           "use one of the four",
		"cat --since yesterday " + dir:           `--since: "yesterday" is no time`,
		"cat --json --raw " + dir:                "use one of them",
		"cat --format {{.Nonsense}} " + dir:      "--format",
		"cat --timeout 0s " + dir:                "must be more than 0",
		"cat --tls-cert x " + dir:                "give all three or none",
		"verify " + dir + " " + dir:              "is named twice",
		"verify 127.0.0.1:1":                     "stop it and name its directory",
		"repair 127.0.0.1:1":                     "stop it and name its directory",
		"ls":                                     "TARGET is missing: the directory of a member that does not run, or the HOST:PORT of one that runs",
		"cat":                                    "TARGET is missing",
		"tail -f":                                "TARGET is missing",
		"dump":                                   "TARGET is missing",
		"verify":                                 "DIR is missing: the directory of a member that does not run",
		"repair":                                 "DIR is missing",
		"ls a b":                                 `"b" is one argument too many`,
		"cat a b c":                              `"c" is one argument too many`,
		"repair a b c":                           `"c" is one argument too many`,
		"cat --until 9999-12-31 " + dir:          `--until: "9999-12-31" lies before 1970 or after 2261`,
		"dump --version 1:7 " + dir + " orders.0":               "log orders.0: version 1:7: no such record: it ends at 1:6",
		"dump --version 8:2 " + dir + " orders.1":               "log orders.1: version 8:2: no such record: it is empty",
		"verify --keys " + file + " " + dir:                     `line 1: "abc" is no Ed25519 public key`,
		"dump --json " + dir + " orders.0":                      "needs --out",
		"dump --out " + file + " " + dir + " orders.0":          "is there already",
		"dump --at now --version 1 " + dir + " orders.0":        "[at version]",
		"dump --version x " + dir:                               "--version",
		"cat --version 1:0 --from x --until y --limit 1 " + dir: "--from: \"x\" is no version: use VIEW:SEQ, for instance 3:1200, or VIEW alone for its beginning\n--until: \"y\" is no time",
	} {
		if out, err := execute(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: %q, %v: nothing of %q", line, out, err, want)
		}
	}
}

func TestADirectoryInUseSaysToAskTheMember(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := opened(t, dir, 1, persist.LogConfig{ID: orders})
	defer s.Close()
	if _, err := execute(t, "ls", dir); !errors.Is(err, persist.ErrInUse) || !strings.Contains(err.Error(), "name its HOST:PORT") {
		t.Error(err)
	}
	for _, command := range []string{"verify", "repair --yes"} {
		if _, err := execute(t, append(strings.Fields(command), dir)...); !errors.Is(err, persist.ErrInUse) || !strings.Contains(err.Error(), stopIt) {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestTimesAreReadInManyForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 10, 0, time.UTC)
	for text, want := range map[string]order.Time{
		"now": noon + 10e9, "10s": noon, "0s": noon + 10e9, "2026-03-04T12:00:00Z": noon, "2026-03-04T13:00:00+01:00": noon,
		"2026-03-04 12:00": noon, "2026-03-04T12:00:00.5": noon + 5e8, "2026-03-04": noon - 12*3600e9,
	} {
		if got, err := parseTime(text, now); err != nil || got != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "12:00", "-5s", "tomorrow"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestTheExamplesOfTheHelpAreGood(t *testing.T) {
	t.Parallel()
	cmd := NewCommand()
	for _, c := range append(cmd.Commands(), cmd) {
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(line, " #")
			line, _, _ = strings.Cut(line, " |")
			understood(t, split(strings.TrimPrefix(strings.TrimSpace(line), "squall log")))
		}
	}
}

func TestTargetsAndLogsAreCompleted(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(3)...)
	for _, c := range []struct {
		args  []string
		typed string
		want  string
		how   cobra.ShellCompDirective
	}{
		{nil, "", "", cobra.ShellCompDirectiveFilterDirs},
		{[]string{dir}, "", "orders.0", cobra.ShellCompDirectiveNoFileComp},
		{[]string{dir}, "o", "orders.0", cobra.ShellCompDirectiveNoFileComp},
		{[]string{dir}, "x", "", cobra.ShellCompDirectiveNoFileComp},
		{[]string{"localhost:1"}, "", "", cobra.ShellCompDirectiveNoFileComp},
		{[]string{dir, "orders"}, "", "", cobra.ShellCompDirectiveNoFileComp},
	} {
		got, how := completeTarget(nil, c.args, c.typed)
		if strings.Join(got, " ") != c.want || how != c.how {
			t.Errorf("%v %q: %v, %v", c.args, c.typed, got, how)
		}
	}
}

func TestNothingIsCompletedBehindTheLastArgument(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(3)...)
	for command, want := range map[string]cobra.ShellCompDirective{
		"ls": cobra.ShellCompDirectiveNoFileComp, "verify": cobra.ShellCompDirectiveFilterDirs,
	} {
		sub, _, err := NewCommand().Find([]string{command})
		if err != nil {
			t.Fatal(err)
		}
		if _, how := sub.ValidArgsFunction(sub, nil, ""); how != cobra.ShellCompDirectiveFilterDirs {
			t.Errorf("%s: %v", command, how)
		}
		if names, how := sub.ValidArgsFunction(sub, []string{dir}, ""); how != want || len(names) > 0 {
			t.Errorf("%s DIR: %v, %v", command, names, how)
		}
	}
}

func TestAnInterruptEndsWhatReadsADirectory(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(3)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"ls", dir}, {"cat", dir}, {"dump", dir}, {"verify", dir}, {"verify", dir, dir + "/."}, {"repair", "--yes", dir}} {
		if err := executeTo(ctx, io.Discard, args...); !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if out, err := execute(t, "cat", "--format", "{{.Number}}", dir); err != nil || out != "0\n1\n2\n" {
		t.Errorf("%q, %v", out, err)
	}
}
