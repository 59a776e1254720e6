package persist

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

var (
	ticks   = LogID{Name: "ticks"}
	signKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	signers = map[order.NodeID]ed25519.PublicKey{1: signKey.Public().(ed25519.PublicKey)}
)

// signedLog makes a directory with a signed log of 120 records, of which the first 40 went into a
// snapshot.
func signedLog(t *testing.T, e Engine) (dir string) {
	t.Helper()
	dir = testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{Engine: e, Sign: signKey})
	appendSamples(t, l, 0, 100)
	l.SetGlobal(sample(99).Version)
	if err := l.Snapshot(sample(39).Version, writes("state")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s, l = reopened(t, dir, LogConfig{Sign: signKey})
	appendSamples(t, l, 100, 120)
	if err := l.Cut(sample(113).Version); err != nil {
		t.Fatal(err)
	}
	appendSamples(t, l, 114, 120)
	mustClose(t, s)
	return dir
}

func verified(t *testing.T, dir string, keys map[order.NodeID]ed25519.PublicKey) Report {
	t.Helper()
	steps := 0
	r, err := Verify(t.Context(), dir, keys, func(p Progress) {
		if steps++; p.Log != ticks || p.Block < p.First || p.Block > p.Last {
			t.Errorf("progress %+v", p)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if steps == 0 && r.OK() {
		t.Error("no progress")
	}
	return r
}

func TestASignedLogIsVerifiedAfterADropACutAndARestart(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := signedLog(t, e)
		r := verified(t, dir, signers)
		if !r.OK() || len(r.Logs) != 1 || r.Node != 1 || r.Cluster != "test" {
			t.Fatalf("%+v", r)
		}
		l := r.Logs[0]
		if l.Engine != e.String() || l.Records < 80 || l.Vouched != l.Records || l.Hashed != l.Records || l.First.Number > 40 ||
			l.Last.Number != 119 || l.Snapshot.Number != 39 {
			t.Errorf("%+v", l)
		}
		if r := verified(t, dir, nil); !r.OK() || r.Logs[0].Vouched != 0 {
			t.Errorf("without keys: %+v", r)
		}
		wrong := map[order.NodeID]ed25519.PublicKey{1: bytes.Repeat([]byte{9}, ed25519.PublicKeySize)}
		if r := verified(t, dir, wrong); r.OK() || !strings.Contains(r.Logs[0].Faults[0].String(), "signature") {
			t.Errorf("with another key: %+v", r)
		}
		text, err := json.Marshal(r)
		if err != nil || !bytes.Contains(text, []byte(`"vouched":`)) {
			t.Errorf("%s, %v", text, err)
		}
	})
}

func TestADirectoryInUseIsNotVerified(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	reopened(t, dir, LogConfig{})
	_, err := Verify(t.Context(), dir, nil, nil)
	refused(t, err, ErrInUse, dir)
	_, err = Verify(t.Context(), testutil.MemoryDir(t), nil, nil)
	refused(t, err, ErrNoStore)
}

// U4: whatever is done to the files, the report says where, or all records are there; and opening
// the log says it, or gives records that were appended.
func TestDamageAnywhereIsReportedAndNeverAPanic(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := signedLog(t, e)
		var files []string
		for _, pattern := range []string{"*", "logs/*/*"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, found...)
		}
		rounds := 120
		if testing.Short() {
			rounds = 20
		}
		rnd := rand.New(rand.NewPCG(8, uint64(e.String()[0])))
		for _, path := range files {
			whole, err := os.ReadFile(path)
			if err != nil || len(whole) == 0 {
				continue // a directory
			}
			whole = whole[:min(len(whole), 1<<20)] // of a file that was made longer than what is in it
			for range rounds / len(files) * 2 {
				disturb(t, dir, path, whole, rnd)
			}
		}
	})
}

func disturb(t *testing.T, dir, path string, whole []byte, rnd *rand.Rand) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := rnd.IntN(len(whole))
	broken := bytes.Clone(whole[at:min(at+1+rnd.IntN(2)*300, len(whole))])
	for i := range broken {
		broken[i] ^= byte(1 << rnd.IntN(8))
	}
	put := func(b []byte) {
		if _, err := f.WriteAt(b, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	put(broken)
	defer put(whole[at : at+len(broken)])
	r, err := Verify(t.Context(), dir, signers, nil)
	if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerFormat) {
		t.Fatalf("%s at %d: %v", path, at, err)
	}
	if err == nil && r.OK() && (len(r.Logs) != 1 || r.Logs[0].Vouched < 80) {
		t.Fatalf("%s at %d, %d bytes: %+v", path, at, len(broken), r)
	}
	readDamaged(t, dir)
}

// readDamaged reads what can be read of the log, without changing it.
func readDamaged(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir, ReadOnly: true})
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
	l, err := s.Log(t.Context(), LogConfig{ID: ticks})
	if err != nil {
		return
	}
	for r, err := range l.Range(order.Version{}, order.Version{}) {
		if err != nil {
			return
		}
		equal(t, r, sample(int(r.Number)))
	}
}

func TestAChangedRecordIsFoundWithItsVersion(t *testing.T) {
	t.Parallel()
	dir := signedLog(t, EngineBolt)
	path := filepath.Join(dir, "logs", "ticks.0", engine.BoltFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for from := len(whole); ; { // a tree has several copies, of which only one is in use
		if from = bytes.LastIndex(whole[:from], sample(77).Data[:100]); from < 0 {
			break
		}
		whole[from+50]++
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	r := verified(t, dir, signers)
	if r.OK() {
		t.Fatal("not found")
	}
	f := r.Logs[0].Faults[0]
	if f.Record != 77 || !strings.HasPrefix(f.Version, fmt.Sprintf("%d:", sample(77).Version.View)) || !strings.Contains(f.File, "ticks.0") || !strings.Contains(f.What, "checksum") {
		t.Errorf("%+v", f)
	}
}

func TestLogsOfSeveralMembersAreComparedRecordByRecord(t *testing.T) {
	t.Parallel()
	a, b, c := signedLog(t, EngineBolt), signedLog(t, EngineWAL), testutil.MemoryDir(t)
	s, l := reopened(t, c, LogConfig{})
	appendSamples(t, l, 0, 50)
	mustClose(t, s)
	all, err := CompareLogs(t.Context(), a, b, c)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if d := all[0]; d.Differ != "" || d.Records != 10 || d.From != sample(40).Version || d.To != sample(49).Version || len(d.Dirs) != 3 {
		t.Errorf("%+v", d)
	}
	s, l = reopened(t, c, LogConfig{})
	r := sample(50)
	r.Sender += 3
	if !l.Append(&r) {
		t.Fatal("no space")
	}
	appendSamples(t, l, 51, 60)
	mustClose(t, s)
	all, err = CompareLogs(t.Context(), a, b, c)
	if err != nil || len(all) != 1 || all[0].Records != 10 || !strings.Contains(all[0].Differ, "senders") || !strings.Contains(all[0].Differ, c) {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestAVersionThatIsNotKnownIsLeftOut(t *testing.T) {
	t.Parallel()
	v := order.Version{View: 2, Seq: 21}
	for _, known := range []bool{true, false} {
		f, d := Fault{File: "log", Block: 3, Record: 4, What: "gone"}, journal.Damage{Log: "log", Block: 3, Record: 4, What: "gone"}
		if known {
			f.Version, d.Version = v.String(), v
		}
		for _, text := range []string{f.String(), d.Error()} {
			if strings.Contains(text, "near version 2:21") != known || strings.Contains(text, "0:0") {
				t.Error(text)
			}
		}
	}
}

func TestOneLogOfAnOpenStoreIsVerified(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		s := mustOpen(t, Config{Dir: tarnished(t, e, 25, true), Cluster: "test", Node: 1})
		if r, err := s.VerifyLog(t.Context(), ticks); err != nil || len(r.Faults) == 0 || r.Records < 30 || r.Engine != e.String() {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := s.Log(t.Context(), LogConfig{ID: ticks, Repair: true}); err != nil {
			t.Fatal(err)
		}
		_, err := s.VerifyLog(t.Context(), ticks)
		refused(t, err, ErrLogOpen)
		_, err = s.VerifyLog(t.Context(), LogID{Name: "tocks"})
		refused(t, err, ErrMissing, "tocks.0")
	})
}

// A check of much takes long, and ends with its context: between two blocks, as the blocks of this
// one are not all that is read.
func TestACheckEndsWithItsContext(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := signedLog(t, e)
		ctx, cancel := context.WithCancel(t.Context())
		blocks := 0
		r, err := Verify(ctx, dir, nil, func(p Progress) {
			blocks++
			cancel()
		})
		if !errors.Is(err, context.Canceled) || blocks != 1 || len(r.Faults) > 0 {
			t.Errorf("after %d blocks: %+v, %v", blocks, r, err)
		}
		s := mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
		if _, err := s.VerifyLog(ctx, ticks); !errors.Is(err, context.Canceled) {
			t.Errorf("one log: %v", err)
		}
	})
}

func TestAFaultNamesItsFileAndGivesNoAdvice(t *testing.T) {
	t.Parallel()
	dir := signedLog(t, EngineBolt)
	path := filepath.Join(dir, "logs", "ticks.0", engine.BoltFile)
	if err := os.Truncate(path, 3*4096); err != nil {
		t.Fatal(err)
	}
	faults := verified(t, dir, nil).Logs[0].Faults
	if len(faults) != 1 || faults[0].File != path || strings.Count(faults[0].String(), dir) != 1 || strings.Contains(faults[0].What, "its member") {
		t.Errorf("%+v", faults)
	}
}
