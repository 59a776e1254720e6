package logs

import (
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
)

// Spec is what is measured.
type Spec struct {
	Nodes        int           `json:"nodes"`
	SizeBytes    int           `json:"size_bytes"`
	Engine       string        `json:"engine"` // "wal" or "bolt"
	Fabric       string        `json:"fabric"` // "shm", "tcp" or "auto"
	AfterPersist bool          `json:"after_persist"`
	Sign         bool          `json:"sign"`
	Window       int           `json:"window"`     // messages on their way per sender; 0: by the size
	RingBytes    int           `json:"ring_bytes"` // 0: by the size
	Memory       int           `json:"memory"`     // 0: the group's default
	Warmup       time.Duration `json:"warmup"`
	Duration     time.Duration `json:"duration"`
	Dir          string        `json:"dir"`
	Profile      string        `json:"profile,omitempty"` // members write their profiles to files that begin so; empty: none
	Records      int           `json:"records,omitempty"`
}

var engines = map[string]squall.LogEngine{"wal": wal.Engine, "bolt": bolt.Engine}

// treeEngine is the engine that is a tree of pages, below a head page that is written in place.
const treeEngine = "bolt"

// defaultSpec is three members that stream 10 KiB messages into the engine for high rates.
func defaultSpec() Spec {
	return Spec{
		Nodes: 3, SizeBytes: 10 << 10, Engine: "wal", Fabric: "auto", Warmup: time.Second, Duration: 3 * time.Second, Dir: ".", Records: 1_000_000,
	}
}

// quick is the same with short runs, which show that everything works and no more.
func (s Spec) quick() Spec {
	s.Warmup, s.Duration, s.Records = 200*time.Millisecond, 400*time.Millisecond, 20_000
	return s
}

// with is the spec with changes made to a copy.
func (s Spec) with(change func(*Spec)) Spec {
	change(&s)
	return s
}

// Small messages want many on their way; large ones a ring that stays in the cache.
const (
	smallBytes  = 1 << 10
	smallWindow = 16 << 10
	smallRing   = 2 << 20
)

func (s *Spec) window() int {
	if s.Window == 0 && s.SizeBytes < smallBytes {
		return smallWindow
	}
	return s.Window
}

func (s *Spec) ringBytes() int {
	if s.RingBytes == 0 && s.SizeBytes < smallBytes {
		return smallRing
	}
	return s.RingBytes
}

// check reports all faults at once.
func (s *Spec) check() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Nodes < 2 || s.Nodes > 16 {
		fault("--nodes is %d: 2 to 16", s.Nodes)
	}
	if _, ok := engines[s.Engine]; !ok {
		fault("--engine is %q: wal or bolt", s.Engine)
	}
	if _, ok := bench.Fabrics[s.Fabric]; !ok {
		fault("--fabric is %q: shm, tcp or auto", s.Fabric)
	}
	if s.SizeBytes < bench.IndexBytes || s.SizeBytes > 128<<10 {
		fault("--size is %d: %d bytes to 128 KiB", s.SizeBytes, bench.IndexBytes)
	}
	if s.Duration < 10*time.Millisecond || s.Duration > time.Hour || s.Warmup < 0 || s.Warmup > time.Minute {
		fault("--duration is %v and --warmup is %v: 10 ms to 1 hour, and up to 1 minute", s.Duration, s.Warmup)
	}
	if s.Records < 2 || s.Records > 1<<30 {
		fault("--records is %d: 2 to %d", s.Records, 1<<30)
	}
	errs = append(errs, checkDisk(s.Dir))
	return errors.Join(errs...)
}

// String tells the spec in half a line.
func (s *Spec) String() string {
	text := fmt.Sprintf("%d members, %s, all send, engine %s, fabric %s", s.Nodes, bench.Size(s.SizeBytes), s.Engine, s.Fabric)
	if s.AfterPersist {
		text += ", delivered after persist"
	}
	if s.Sign {
		text += ", signed"
	}
	return text
}
