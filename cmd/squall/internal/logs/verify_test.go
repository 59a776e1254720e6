package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// three members, the second one a little behind.
func three(t *testing.T, change func(node int, all []persist.Record)) (dirs []string) {
	for i, name := range []string{"node1", "node2", "node3"} {
		node := order.NodeID(i + 1)
		all := records(25 - 2*(i%2))
		if change != nil {
			change(i+1, all)
		}
		dirs = append(dirs, stopped(t, name, node, persist.LogConfig{ID: orders, Sign: keyOf(node)}, all...))
	}
	return dirs
}

func verify(t *testing.T, args ...string) (Verified, error) {
	t.Helper()
	out, err := execute(t, append([]string{"verify", "--json"}, args...)...)
	var v Verified
	if fault := json.Unmarshal([]byte(out), &v); fault != nil {
		t.Fatal(fault, out, err)
	}
	return v, err
}

func TestGoodMembersAreGood(t *testing.T) {
	t.Parallel()
	dirs := three(t, nil)
	golden(t, "verify", must(t, append([]string{"verify"}, dirs...)...))
	v, err := verify(t, append(dirs, "--keys", keyFile(t, 1, 2, 3))...)
	if err != nil || !v.OK || len(v.Directories) != 3 || v.Directories[0].Logs[0].Vouched != 25 || v.Compared[0].Records != 23 {
		t.Fatalf("%+v, %v", v, err)
	}
}

func TestMembersThatDifferAreFound(t *testing.T) {
	t.Parallel()
	dirs := three(t, func(node int, all []persist.Record) {
		if node == 3 {
			all[17].Data = []byte("order 71")
		}
	})
	v, err := verify(t, dirs...)
	if err == nil || v.OK || v.Compared[0].Records != 17 || !strings.Contains(err.Error(), "the data differ") {
		t.Fatalf("%+v, %v", v, err)
	}
	out, err := execute(t, append([]string{"verify"}, dirs...)...)
	if err == nil {
		t.Fatal("no error")
	}
	golden(t, "verify-differ", out)
}

func TestRecordsThatNobodyVouchesForAreFaultsOnlyIfKeysAreGiven(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(5)...)
	if _, err := verify(t, dir); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{
		keyFile(t, 1): "node 1's signatures vouch for 0 of 5 records", keyFile(t, 2): "--keys has no key of node 1",
	} {
		if v, err := verify(t, "--keys", keys, dir); err == nil || v.OK || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v", v, err)
		}
	}
}

func TestDirectoriesOfTwoClustersAreNotGoodTogether(t *testing.T) {
	t.Parallel()
	shop := stopped(t, "shop", 1, persist.LogConfig{ID: orders}, records(5)...)
	ledger := filepath.Join(t.TempDir(), "ledger")
	s, err := persist.Open(t.Context(), persist.Config{Dir: ledger, Cluster: "ledger", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, "verify", shop, ledger)
	if !errors.Is(err, persist.ErrOtherCluster) || !strings.Contains(err.Error(), `of cluster "shop"`) || !strings.Contains(out, "not compared: "+ledger) {
		t.Errorf("%v\n%s", err, out)
	}
	if v, err := verify(t, shop, ledger); err == nil || v.OK || len(v.Faults) != 1 || v.NotCompared == "" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestItIsSaidThatDamagedLogsAreNotCompared(t *testing.T) {
	t.Parallel()
	dirs := three(t, nil)
	spoil(t, filepath.Join(dirs[1], "logs", "orders.0", "log.db"), "order 17")
	out, err := execute(t, append([]string{"verify"}, dirs...)...)
	if err == nil || !strings.HasSuffix(out, "\nnot compared: "+dirs[1]+" has faults\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if v, err := verify(t, dirs...); err == nil || v.NotCompared != dirs[1]+" has faults" || len(v.Compared) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestLogsWithoutSignaturesAreComparedAllTheSame(t *testing.T) {
	t.Parallel()
	dirs := three(t, nil)
	if v, err := verify(t, append(dirs, "--keys", keyFile(t, 1, 3))...); err == nil || v.OK || v.NotCompared != "" || v.Compared[0].Records != 23 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestWhatIsVerifiedHasTheFormOfWhatIsListed(t *testing.T) {
	t.Parallel()
	dirs := three(t, nil)
	spoil(t, filepath.Join(dirs[2], "logs", "orders.0", "log.db"), "order 17")
	golden(t, "verify-json", must(t, append([]string{"verify", "--json"}, dirs[:2]...)...))
	v, err := verify(t, dirs[2])
	if f := v.Directories[0].Logs[0].Faults; err == nil || len(f) != 1 || f[0].Version != "2:21" || f[0].Record != 17 {
		t.Errorf("%+v, %v", f, err)
	}
	var listed Listing
	if err := json.Unmarshal([]byte(must(t, "ls", "--json", dirs[0])), &listed); err != nil {
		t.Fatal(err)
	}
	v, err = verify(t, dirs[0])
	a, b := listed.Logs[0], v.Directories[0].Logs[0]
	if err != nil || a.Log != b.Log || a.Name != b.Name || *a.First != *b.First || *a.Last != *b.Last {
		t.Errorf("%+v is not %+v: %v", a, b, err)
	}
}

func TestAKeyOfSomebodyElseDoesNotFloodTheScreen(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders, Sign: keyOf(2)}, records(25)...)
	out, err := execute(t, "verify", "--quiet", "--keys", keyFile(t, 1), dir)
	if err == nil || strings.Count(out, "FAULT") != shownFaults || !strings.Contains(out, "and 5 faults more; --json lists all") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestDamageIsNamedAndTheExitStatusSaysSo(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	files, err := filepath.Glob(filepath.Join(dir, "logs", "orders.0", "*"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := false
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.LastIndex(b, []byte("order 13")); i >= 0 {
			b[i] ^= 1
			damaged = true
			if err := os.WriteFile(f, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !damaged {
		t.Fatalf("the record is in none of %v", files)
	}
	v, err := verify(t, dir)
	if err == nil || v.OK || len(v.Directories[0].Logs[0].Faults) == 0 || !strings.Contains(err.Error(), "1 fault") {
		t.Fatalf("%+v, %v", v, err)
	}
}

func TestADumpHasTheSnapshotAndWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "node1")
	s, l := opened(t, dir, 1, persist.LogConfig{ID: orders})
	put(t, l, records(25)...)
	at := record(9).Version
	l.SetGlobal(at)
	if err := l.Snapshot(at, func(w io.Writer) error {
		_, err := w.Write([]byte("nine orders"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "dump", must(t, "dump", dir, "--version", "2:9"))
	golden(t, "dump-at", must(t, "dump", dir, "--at", "2026-03-04T12:00:11Z"))
	file := filepath.Join(t.TempDir(), "out.jsonl")
	must(t, "dump", dir, "-o", file)
	whole, err := os.ReadFile(file)
	if err != nil || string(whole) != must(t, "dump", dir) || strings.Count(string(whole), "\n") != 18 {
		t.Fatalf("%s, %v", whole, err)
	}
	out := filepath.Join(t.TempDir(), "state") + "/"
	var r Dumped
	if err := json.Unmarshal([]byte(must(t, "dump", dir, "--at", "2026-03-04T12:00:11Z", "--out", out, "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if r.Records != 2 || r.Last != "2:3" || r.Snapshot != "1:27" || r.SnapshotBytes != 11 {
		t.Errorf("%+v", r)
	}
	if content, err := os.ReadFile(filepath.Join(out, "snapshot")); err != nil || string(content) != "nine orders" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := execute(t, "dump", dir, "--out", out); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Error(err)
	}
	if _, err := execute(t, "dump", dir, "--version", "1:3"); err == nil || !strings.Contains(err.Error(), "before its snapshot of 1:27") {
		t.Error(err)
	}
}
