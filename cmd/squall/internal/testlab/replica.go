package testlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/persist"
)

// State is what an application made of a load: of the log when it started, or caught up, or of the
// state of another member, and of what was delivered since. It must be the same at every member.
type State struct {
	Messages uint64
	Bytes    uint64
	Digest   string // of senders and messages, in order: a SHA-256
	Versions uint64 // a hash of the versions of all messages, in order
	Last     squall.Version
	Fault    string // something came twice, or not in order; empty: nothing did
}

// Lives is how many messages of each process a state has, by life.
type Lives []uint64

// Of is how many messages of a process there are.
func (l Lives) Of(life int) uint64 {
	if life >= len(l) {
		return 0
	}
	return l[life]
}

// history is the state of a replica, and what it is made from.
type history struct {
	State   // its digest is missing
	lives   Lives
	content content
	digest  Digest
}

func newHistory(l *Load) history { return history{content: l.content(), digest: NewDigest()} }

// take adds a message. Messages of a process come in the order of their numbers, without a gap.
func (h *history) take(m squall.Message) {
	v := m.Version()
	if h.Messages > 0 && !h.Last.Before(v) {
		h.fault("version %v was delivered after %v", v, h.Last)
	}
	if d, err := h.content.read(m); err != nil {
		h.fault("%v", err)
	} else {
		if missing := d.life + 1 - len(h.lives); missing > 0 {
			h.lives = append(h.lives, make(Lives, missing)...)
		}
		if due := h.lives[d.life]; d.number != due {
			h.fault("message %d of process %d (node %d) was delivered in view %d where message %d was due", d.number, d.life, m.Sender, m.View, due)
		}
		h.lives[d.life]++
	}
	h.Messages++
	h.Last = v
	h.Versions = mix(h.Versions ^ uint64(v.View)<<40 ^ uint64(v.Seq))
	h.digest.Add(m)
}

func (h *history) fault(format string, args ...any) {
	if h.Fault == "" {
		h.Fault = fmt.Sprintf(format, args...)
	}
}

// state is the state as it is now.
func (h *history) state() State {
	s := h.State
	s.Bytes, s.Digest = h.digest.Bytes, h.digest.Sum()
	return s
}

// snapshotFiller makes snapshots so long that processes are killed while they write and read them.
const snapshotFiller = 256 << 10

// saved is a history as a snapshot has it.
type saved struct {
	State  State
	Lives  Lives
	Digest []byte
}

// snapshot captures the history.
func (h *history) snapshot() func(io.Writer) error {
	digest, err := h.digest.save()
	s := saved{h.state(), slices.Clone(h.lives), digest}
	return func(w io.Writer) error {
		if err != nil {
			return err
		}
		if err := json.NewEncoder(w).Encode(s); err != nil {
			return err
		}
		_, err := w.Write(make([]byte, snapshotFiller))
		return err
	}
}

// readSnapshot reads a snapshot. One without anything is that of an empty state.
func (h *history) readSnapshot(r io.Reader) error {
	*h = history{content: h.content, digest: NewDigest()}
	var s saved
	d := json.NewDecoder(r)
	if err := d.Decode(&s); err == io.EOF {
		return nil
	} else if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, io.MultiReader(d.Buffered(), r))
	if err == nil && n != snapshotFiller+1 { // the encoder ends the line
		err = fmt.Errorf("a snapshot with %d bytes after its state", n)
	}
	h.State, h.lives = s.State, s.Lives
	return errors.Join(err, h.digest.load(s.Digest, s.State.Bytes))
}

// readLog reads a log's snapshot, and the records behind it.
func (h *history) readLog(snapshot io.ReadCloser, records func(func(squall.Record, error) bool)) error {
	if snapshot != nil {
		if err := errors.Join(h.readSnapshot(snapshot), snapshot.Close()); err != nil {
			return err
		}
	}
	for r, err := range records {
		if err != nil {
			return err
		}
		h.take(squall.Message{View: r.Version.View, Seq: r.Version.Seq, Sender: r.Sender, Data: r.Data})
	}
	return nil
}

// ReadDisk returns the state that a directory of which no process runs has for a load.
func ReadDisk(ctx context.Context, dir string, l *Load) (s State, lives Lives, err error) {
	store, err := persist.Open(ctx, persist.Config{Dir: dir, ReadOnly: true})
	if err != nil {
		return s, nil, err
	}
	defer store.Close()
	log, err := store.Log(ctx, persist.LogConfig{ID: persist.LogID{Name: l.Name}})
	if err != nil {
		return s, nil, err
	}
	_, snapshot, err := log.OpenSnapshot()
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		return s, nil, err
	}
	h := newHistory(l)
	err = h.readLog(snapshot, log.Range(squall.Version{}, squall.Version{}))
	if err == nil && h.Fault != "" {
		err = errors.New(h.Fault)
	}
	return h.state(), h.lives, err
}

const (
	// snapshotEvery is after how many messages a replica asks for a snapshot.
	snapshotEvery = 1000
	// markEvery is how many messages lie between two marks: a few marks a second.
	markEvery = 1 << 17
)

// replica is the application of a load that keeps a state. It tells marks and its fault.
type replica struct {
	tell func(News)
	due  wait.Bell // it is time for a snapshot

	mu    sync.Mutex
	h     history
	taken uint64 // messages of the state that it took over last
	told  bool   // its fault

	view squall.ViewID // of the last message that was delivered; 0: there was none yet
}

func newReplica(l *Load, tell func(News)) *replica {
	return &replica{tell: tell, due: wait.NewBell(), h: newHistory(l)}
}

func (r *replica) deliver(batch []squall.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	replayed := batch[0].Replayed() // so are all of them
	before := r.h.Messages
	for _, m := range batch {
		if m.View != r.view && !replayed {
			r.turn(m.View)
		}
		r.h.take(m)
		if r.h.Messages%markEvery == 0 {
			r.mark(AtCount, 0)
		}
	}
	r.tellFault()
	if before/snapshotEvery != r.h.Messages/snapshotEvery {
		r.due.Ring()
	}
}

// turn notes that a message of another view is the next one: the views before it are over.
func (r *replica) turn(v squall.ViewID) {
	if r.view != 0 {
		for over := r.view; over < v; over++ {
			r.mark(AtViewEnd, over)
		}
	}
	r.view = v
}

func (r *replica) mark(at Place, view squall.ViewID) {
	r.tell(News{Kind: NewsMark, Mark: &Mark{at, view, r.h.Messages, r.h.digest.Sum()}})
}

func (r *replica) tellFault() {
	if r.h.Fault != "" && !r.told {
		r.told = true
		r.tell(News{Kind: NewsFault, Text: r.h.Fault})
	}
}

// recover replaces the state by that of the log.
func (r *replica) recover(l *squall.Log) error {
	_, snapshot, err := l.OpenSnapshot()
	if err != nil && !errors.Is(err, squall.ErrNotInLog) {
		return err
	}
	return r.replace(func(h *history) error { return h.readLog(snapshot, l.Range(squall.Version{}, squall.Version{})) })
}

// restore replaces the state by that of a snapshot.
func (r *replica) restore(in io.Reader) error {
	return r.replace(func(h *history) error { return h.readSnapshot(in) })
}

// replace replaces the state, but for a fault of the earlier one.
func (r *replica) replace(read func(*history) error) error {
	h := history{content: r.h.content, digest: NewDigest()}
	if err := read(&h); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.h.Fault != "" {
		h.Fault = r.h.Fault
	}
	r.h, r.taken = h, h.Messages
	r.mark(AtRestore, 0)
	r.tellFault()
	return nil
}

func (r *replica) snapshot() func(io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.h.snapshot()
}

// fail notes a fault.
func (r *replica) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.fault(format, args...)
	r.tellFault()
}

// describe adds what the replica has to an answer.
func (r *replica) describe(a *Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.States = append(a.States, r.h.state())
	a.Lives = append(a.Lives, slices.Clone(r.h.lives))
}

// restored is how many messages the state stood for that was taken over last.
func (r *replica) restored() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}
