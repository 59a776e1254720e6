package persist

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// tarnished is a log that was closed, with groups of ten records, in which the block of a record is
// damaged: its header, or the record itself.
func tarnished(t *testing.T, e Engine, n int, header bool) (dir string) {
	t.Helper()
	dir = testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{Engine: e})
	for k := 0; k < 50; k += 10 {
		appendSamples(t, l, k, k+10)
	}
	mustClose(t, s)
	files, err := filepath.Glob(filepath.Join(dir, "logs", "ticks.0", "*"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := map[int]bool{} // a header is damaged once, also if leftovers of an older page lie behind it
		for from := len(whole); ; {
			at := bytes.LastIndex(whole[:from], sample(n).Data)
			if at < 0 {
				break
			}
			from, found = at, true
			if header {
				at = bytes.LastIndex(whole[:at], []byte("SQLB")) + 20
			}
			if !damaged[at] {
				damaged[at] = true
				whole[at] ^= 0xFF
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Fatal("no such record")
	}
	return dir
}

func TestWhoeverReadsDamageTellsOfIt(t *testing.T) {
	t.Parallel()
	for _, e := range []Engine{EngineBolt, EngineWAL} {
		for what, read := range map[string]func(l *Log) error{
			"get":   func(l *Log) error { _, err := l.Get(sample(25).Version); return err },
			"at":    func(l *Log) error { _, err := l.At(sample(25).Time); return err },
			"range": func(l *Log) error { return last(l.Range(order.Version{}, order.Version{})) },
			"tail":  func(l *Log) error { return last(l.Tail(t.Context(), sample(22).Version)) },
		} {
			t.Run(e.String()+"/"+what, func(t *testing.T) {
				dir := tarnished(t, e, 25, false)
				var told []error
				_, l := reopened(t, dir, LogConfig{Damaged: func(err error) { told = append(told, err) }})
				for range 2 {
					if err := read(l); !errors.Is(err, ErrDamaged) {
						t.Fatal(err)
					}
				}
				if len(told) != 1 || !errors.Is(told[0], ErrDamaged) {
					t.Errorf("told %v", told)
				}
				appendSamples(t, l, 50, 60)
				if l.Err() != nil {
					t.Error(l.Err())
				}
			})
		}
	}
}

// last is the error that ends a loop.
func last(records func(func(Record, error) bool)) (err error) {
	for _, err = range records {
		if err != nil {
			return err
		}
	}
	return err
}

// A caller that asks for less of a log than there is has lost nothing if it cannot be dropped.
func TestADamagedLogIsKeptAndAppendedTo(t *testing.T) {
	t.Parallel()
	for _, e := range []Engine{EngineBolt, EngineWAL} {
		t.Run(e.String(), func(t *testing.T) {
			dir := tarnished(t, e, 25, true)
			told := make(chan error, 2)
			_, l := reopened(t, dir, LogConfig{Retain: Retention{Records: 5}, Damaged: func(err error) { told <- err }})
			l.SetGlobal(sample(59).Version)
			appendSamples(t, l, 50, 60)
			appendSamples(t, l, 60, 70)
			if err := <-told; !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "block") {
				t.Error(err)
			}
			if err := l.Err(); err != nil || l.End().Records != 70 || len(told) != 0 {
				t.Errorf("%v; %+v", err, l.End())
			}
		})
	}
}

// Where a log ends is known whatever can be read of it.
func TestTheEndOfALogWithADamagedLastRecordIsKnown(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	large := Record{Version: order.Version{View: 1, Seq: 9}, Sender: 1, Data: bytes.Repeat([]byte("large"), 1<<20)}
	s, l := reopened(t, dir, LogConfig{Engine: EngineBolt})
	appendSamples(t, l, 0, 3)
	if !l.Append(&large) {
		t.Fatal("no space")
	}
	mustClose(t, s)
	path := filepath.Join(dir, "logs", "ticks.0", engine.BoltFile)
	whole, err := os.ReadFile(path)
	at := bytes.Index(whole, []byte("largelarge"))
	if err != nil || at < 0 {
		t.Fatal(at, err)
	}
	whole[at+100] ^= 0xFF // in its first fragment
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	_, l = reopened(t, dir, LogConfig{})
	if _, err := l.Get(large.Version); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	i := l.Info()
	if e := l.End(); e.Version != large.Version || e.Records != 4 || i.Last.Version != large.Version || i.Last.Number != 3 || i.Count != 4 {
		t.Errorf("it ends at %v after %d records, and Info says %+v", e.Version, e.Records, i)
	}
}
