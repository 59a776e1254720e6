package testlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"sync"

	"github.com/squall-go/squall"
)

// State is what an application made of a durable load: of the log when it started, or caught up,
// and of what was delivered since. It must be that of the log, at every member.
type State struct {
	Messages uint64
	Hash     uint64 // of all of them, in order
	Last     squall.Version
	Fault    string // something came twice, or not in order; empty: nothing did
}

// history is the state of a replica: a State, and how many messages of each process it has.
type history struct {
	State
	Lives map[int]uint64
}

func newHistory() history { return history{Lives: map[int]uint64{}} }

// take adds a message. Messages of a process come in the order of their numbers, without a gap.
func (h *history) take(v squall.Version, sender squall.NodeID, data []byte) {
	fault := func(format string, args ...any) {
		if h.Fault == "" {
			h.Fault = fmt.Sprintf(format, args...)
		}
	}
	if h.Messages > 0 && !h.Last.Before(v) {
		fault("version %v came behind %v", v, h.Last)
	}
	if d, err := read(squall.Message{Data: data, Sender: sender, View: v.View, Seq: v.Seq}); err != nil {
		fault("%v", err)
	} else if n := h.Lives[d.life]; n != d.number {
		fault("version %v is message %d of process %d, behind %d messages of that process", v, d.number, d.life, n)
	} else {
		h.Lives[d.life]++
	}
	h.Messages++
	h.Last = v
	h.Hash = mix(h.Hash ^ mix(uint64(crc32.Checksum(data, castagnoli))^mix(uint64(v.View)<<40^uint64(v.Seq)<<8^uint64(sender))))
}

// snapshotFiller makes snapshots so long that processes are killed while they write and read them.
const snapshotFiller = 256 << 10

// write writes the history as a snapshot.
func (h history) write(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(h); err != nil {
		return err
	}
	_, err := w.Write(make([]byte, snapshotFiller))
	return err
}

// readHistory reads a snapshot. One without anything is that of an empty state.
func readHistory(r io.Reader) (history, error) {
	h := newHistory()
	d := json.NewDecoder(r)
	if err := d.Decode(&h); err == io.EOF {
		return newHistory(), nil
	} else if err != nil {
		return h, err
	}
	n, err := io.Copy(io.Discard, io.MultiReader(d.Buffered(), r))
	if err == nil && n != snapshotFiller+1 { // the encoder ends the line
		err = fmt.Errorf("a snapshot with %d bytes behind its state", n)
	}
	return h, err
}

// readLog reads a log's snapshot, and the records behind it.
func readLog(snapshot io.ReadCloser, records func(func(squall.Record, error) bool)) (h history, err error) {
	h = newHistory()
	if snapshot != nil {
		h, err = readHistory(snapshot)
		if err = errors.Join(err, snapshot.Close()); err != nil {
			return h, err
		}
	}
	for rec, err := range records {
		if err != nil {
			return h, err
		}
		h.take(rec.Version, rec.Sender, rec.Data)
	}
	return h, nil
}

// snapshotEvery is after how many messages a replica asks for a snapshot.
const snapshotEvery = 1000

// replica is the application of a durable load.
type replica struct {
	due chan struct{} // it is time for a snapshot

	mu sync.Mutex
	h  history
}

func newReplica() replica { return replica{due: make(chan struct{}, 1), h: newHistory()} }

func (r *replica) deliver(batch []squall.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.h.Messages
	for _, m := range batch {
		r.h.take(m.Version(), m.Sender, m.Data)
	}
	if before/snapshotEvery != r.h.Messages/snapshotEvery {
		select {
		case r.due <- struct{}{}:
		default:
		}
	}
}

// recover replaces the state by that of the log.
func (r *replica) recover(l *squall.Log) error {
	_, snapshot, err := l.OpenSnapshot()
	if err != nil && !errors.Is(err, squall.ErrNotInLog) {
		return err
	}
	h, err := readLog(snapshot, l.Range(squall.Version{}, squall.Version{}))
	if err == nil {
		r.replace(h)
	}
	return err
}

// restore replaces the state by that of the log's snapshot.
func (r *replica) restore(in io.Reader) error {
	h, err := readHistory(in)
	if err == nil {
		r.replace(h)
	}
	return err
}

// replace replaces the state, but for a fault of the earlier one.
func (r *replica) replace(h history) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.h.Fault != "" {
		h.Fault = r.h.Fault
	}
	r.h = h
}

func (r *replica) snapshot() func(io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.h
	h.Lives = maps.Clone(h.Lives)
	return h.write
}

// fail notes a fault.
func (r *replica) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.h.Fault == "" {
		r.h.Fault = text
	}
}

func (r *replica) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.h.State
}
