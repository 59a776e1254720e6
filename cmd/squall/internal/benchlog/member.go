package benchlog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// memberCommand is the hidden command of a member process, which belongs below "bench" too.
const memberCommand = "log-member"

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
	Addr   string // of the founder; empty: this is it
	Dir    string // of this process alone; it is there
	Pieces pieces // of a writer
}

// word is what a process tells: where the founder listens, that it is ready, or the answer to a request.
type word struct {
	Addr   string
	Ready  bool
	Sample *Sample
	State  *State
}

// request is what the parent asks of a process that is ready.
type request struct {
	Op       string
	From, To time.Time // the window
	Parts    []string  // subgroups in which is sent
}

const (
	opStream = "stream" // send in some subgroups, as fast as can be: a Sample
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
	Latency   Latency
}

// Latency is in microseconds.
type Latency struct {
	Count        int64   `json:"count"`
	P50Us, P99Us float64 `json:",omitempty"`
}

// State is what a member did in its first subgroup so far.
type State struct{ Sent, Delivered, Persisted uint64 }

// NewMemberCommand returns the hidden command that the processes are started with.
func NewMemberCommand() *cobra.Command { return proc.Command(memberCommand, serve) }

// workload is what a process does.
type workload interface {
	answer(ctx context.Context, r request) (word, error)
	close() error
}

func serve(ctx context.Context, p *proc.Parent) error {
	var j job
	if err := p.Config(&j); err != nil {
		return err
	}
	err := j.serve(ctx, p)
	if errors.Is(err, proc.ErrParentGone) {
		return nil
	}
	return err
}

func (j job) open(ctx context.Context, p *proc.Parent) (workload, error) {
	switch j.Kind {
	case memberKind, besideKind:
		return openMember(ctx, j, p)
	case writeKind:
		return openWriting(j)
	}
	return nil, fmt.Errorf("no such kind of process: %q", j.Kind)
}

// serve answers requests until the parent has no more.
func (j job) serve(ctx context.Context, p *proc.Parent) error {
	w, err := j.open(ctx, p)
	if err != nil {
		return err
	}
	err = p.Send(word{Ready: true})
	for err == nil {
		var r request
		if err = p.Receive(ctx, &r); err != nil {
			break
		}
		var answer word
		if answer, err = w.answer(ctx, r); err == nil {
			err = p.Send(answer)
		}
	}
	return errors.Join(err, w.close())
}

// writing is a process that writes to the disk.
type writing struct{ *writer }

func openWriting(j job) (workload, error) {
	w, err := newWriter(filepath.Join(j.Dir, "pieces"), j.Pieces)
	if err != nil {
		return nil, err
	}
	return writing{w}, nil
}

func (w writing) answer(ctx context.Context, r request) (a word, err error) {
	a.Sample, err = w.run(ctx, r.From, r.To)
	return a, err
}

func (w writing) close() error { return w.file.Close() }
