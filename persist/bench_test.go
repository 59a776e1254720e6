package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
	"github.com/squall-go/squall/persist/internal/wallog"
)

// pump appends records as fast as a log takes them, until everything is durable.
func pump(b testing.TB, l *Log, wake <-chan struct{}, from order.Version, count, bytes int) order.Version {
	data := make([]byte, bytes)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for i := range count {
		r := Record{Version: from, Sender: order.NodeID(1 + i%3), Data: data}
		for !l.Append(&r) {
			<-wake
		}
		from.Seq++
	}
	if err := l.Sync(context.Background()); err != nil {
		b.Fatal(err)
	}
	return from
}

func benchStore(b testing.TB, dir string, e Engine) (*Store, *Log, chan struct{}) {
	s, err := Open(b.Context(), Config{Dir: dir, Cluster: "bench", Node: 1})
	if err != nil {
		b.Fatal(err)
	}
	wake := make(chan struct{}, 1)
	l, err := s.Log(b.Context(), LogConfig{ID: LogID{Name: "bench"}, Engine: e, Wake: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	return s, l, wake
}

// benchDir is on the disk that is measured: not always what TMPDIR is.
func benchDir(b testing.TB) string {
	dir, err := os.MkdirTemp(os.Getenv("SQUALL_BENCH_DIR"), "squall-log-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

var benchSizes = []struct {
	name  string
	bytes int
}{{"100B", 100}, {"1KiB", 1 << 10}, {"10KiB", 10 << 10}, {"1MiB", 1 << 20}}

// BenchmarkLog is one log that is appended to as fast as it becomes durable.
func BenchmarkLog(b *testing.B) {
	for _, e := range []Engine{EngineBolt, wallog.Driver{}} {
		for _, size := range benchSizes {
			b.Run(fmt.Sprintf("engine=%v/size=%s", e, size.name), func(b *testing.B) {
				s, l, wake := benchStore(b, benchDir(b), e)
				defer s.Close()
				b.SetBytes(int64(size.bytes))
				b.ReportAllocs()
				b.ResetTimer()
				pump(b, l, wake, order.Version{View: 1}, b.N, size.bytes)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

// BenchmarkAppend is what the loop pays: the disk is the memory's.
func BenchmarkAppend(b *testing.B) {
	for _, size := range benchSizes {
		b.Run("size="+size.name, func(b *testing.B) {
			data, v := make([]byte, size.bytes), order.Version{View: 1}
			l := unwritten(64 << 20)
			b.SetBytes(int64(size.bytes))
			for b.Loop() {
				r := Record{Version: v, Sender: 1, Data: data}
				for !l.Append(&r) {
					l.journal.Take()
					l.journal.Written(nil)
				}
				v.Seq++
			}
		})
	}
}

// BenchmarkDurable is the time from a record that comes alone to the word that it is durable.
func BenchmarkDurable(b *testing.B) {
	for _, e := range []Engine{EngineBolt, wallog.Driver{}} {
		b.Run(fmt.Sprintf("engine=%v", e), func(b *testing.B) {
			s, l, wake := benchStore(b, benchDir(b), e)
			defer s.Close()
			v := order.Version{View: 1}
			for b.Loop() {
				r := Record{Version: v, Sender: 1, Data: make([]byte, 100)}
				l.Append(&r)
				for {
					if <-wake; func() bool { _, last := l.Durable(); return last == v }() {
						break
					}
				}
				v.Seq++
			}
		})
	}
}

// BenchmarkReopen opens a log of 1 GB.
func BenchmarkReopen(b *testing.B) {
	for _, e := range []Engine{EngineBolt, wallog.Driver{}} {
		for _, size := range []int{1 << 10, 100 << 10} {
			b.Run(fmt.Sprintf("engine=%v/records=%d", e, 1<<30/size), func(b *testing.B) {
				dir := benchDir(b)
				s, l, wake := benchStore(b, dir, e)
				pump(b, l, wake, order.Version{View: 1}, 1<<30/size, size)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					start := time.Now()
					s, l, _ := benchStore(b, dir, e)
					if i := l.Info(); i.Count != uint64(1<<30/size) {
						b.Fatalf("%+v", i)
					}
					b.ReportMetric(time.Since(start).Seconds(), "s/open")
					s.Close()
				}
			})
		}
	}
}

// BenchmarkRaw is the disk itself: one writer, 1 MiB and an fdatasync at a time, in a file whose
// room was set aside. Every other figure is to be read as a part of this one, from the same run.
func BenchmarkRaw(b *testing.B) {
	const length, chunk = 1 << 30, 1 << 20
	f, err := os.Create(filepath.Join(benchDir(b), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(engine.SetAside(f, length), f.Sync()); err != nil {
		b.Fatal(err)
	}
	data := bytes.Repeat([]byte("squall"), chunk/6+1)[:chunk]
	b.SetBytes(chunk)
	at := int64(0)
	for b.Loop() {
		if _, err := f.WriteAt(data, at%length); err != nil {
			b.Fatal(err)
		}
		if err := engine.SyncData(f); err != nil {
			b.Fatal(err)
		}
		at += chunk
	}
}
