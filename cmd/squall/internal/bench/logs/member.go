package logs

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// Workload is what the processes of "squall bench log" do.
var Workload = bench.Workload{Name: "logs", Open: open}

// What a process does.
const (
	memberKind = "member" // of a group
	besideKind = "beside" // of a group that has a second subgroup, without a log
	writeKind  = "write"  // nothing but writing to the disk
)

// job is a process's configuration.
type job struct {
	Spec   Spec
	Kind   string
	Node   int    // from 1
	Dir    string // of this process alone; it exists
	Pieces pieces // of a writer
}

const (
	opStream = "stream" // send in some subgroups, which are the arguments, as fast as can be: a Sample
	opLoop   = "loop"   // send one message at a time, from the first member: a Sample
	opWrite  = "write"  // write pieces to the disk: a Sample
	opState  = "state"  // a State
)

// Sample is what a process counted in a window.
type Sample struct {
	Delivered []uint64      // by subgroup
	Persisted uint64        // delivered here and on every disk, of the first one
	Bytes     uint64        // that a writer wrote
	Elapsed   time.Duration // of the window
	CPU       time.Duration
	Latency   bench.Latency
}

// State is what a member did in its first subgroup so far.
type State struct{ Sent, Delivered, Persisted uint64 }

func open(_ int, config func(v any) error) (bench.Member, error) {
	var j job
	if err := config(&j); err != nil {
		return nil, err
	}
	switch j.Kind {
	case memberKind, besideKind:
		return newMember(j)
	case writeKind:
		w, err := newWriter(filepath.Join(j.Dir, "pieces"), j.Pieces)
		return writing{w}, err
	}
	return nil, fmt.Errorf("no such kind of process: %q", j.Kind)
}

// writing is a process that writes to the disk.
type writing struct{ *writer }

func (w writing) Listen(context.Context) (string, error)  { return "", nil }
func (w writing) Connect(context.Context, []string) error { return nil }
func (w writing) Close() error                            { return w.file.Close() }

func (w writing) Answer(ctx context.Context, r bench.Request) (any, error) {
	return w.run(ctx, r.From, r.To)
}
