package testlab

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"sync"

	"github.com/squall-go/squall"
)

// A log is a sequence of frames {kind, length, payload}. Frames of runs are binary, the others
// JSON. What is written is in the file when the upcall returns, so that a killed process leaves all
// but its last run.
const (
	frameHeader = 'H'
	frameView   = 'V'
	frameRun    = 'R'
	frameBad    = 'B' // content that no process sent
	frameEnd    = 'E'
)

// Header begins a log.
type Header struct {
	Life      int
	ID        squall.NodeID
	Subgroups []LoggedSubgroup
}

// LoggedSubgroup is a subgroup of a log.
type LoggedSubgroup struct {
	Name  string
	Async bool // what it delivers may come after a later view's beginning: out of a queue, or when the log has what it lacked

	content content // not in the file
}

// End is how a process ended.
type End struct {
	Reason   string   // of the halt; empty: it left, and everything that it sent was delivered
	Accepted []uint64 // messages that Send took, by subgroup
	Begun    []uint64 // messages besides of which it is not known whether Send took them
}

// Run is a piece of what a subgroup delivered in a view.
type Run struct {
	Subgroup int
	View     squall.ViewID
	First    uint64 // how many messages of the view came before
	Seqs     [2]squall.Seq
	Hash     uint64 // of all messages' hashes
	Parts    []Part // by process, in the order of their first messages
	Digests  []byte // a byte of each message's hash

	// Not in the frame:
	Latest      squall.ViewID // the last view that was installed before the run was written
	expectation []uint64      // the next number of each part
}

// Part is one process's messages in a run: [From, From+Count).
type Part struct {
	Life        int
	From, Count uint64
}

// logWriter writes a process's log. The loop, and goroutines of asynchronous subgroups, write to
// it. A nil one keeps nothing.
type logWriter struct {
	subgroups []LoggedSubgroup

	mu     sync.Mutex
	file   *os.File
	buf    []byte
	runs   []Run // the open ones, by subgroup
	length int   // of a run
	size   int64
	limit  int64
	failed error
}

func newLogWriter(path string, length int, limit int64, h Header) (*logWriter, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w := &logWriter{subgroups: h.Subgroups, file: f, runs: make([]Run, len(h.Subgroups)), length: max(1, length), limit: limit}
	w.frame(frameHeader, h)
	w.write()
	return w, w.failed
}

// view notes that a view was installed. What synchronous subgroups delivered in the one before is
// complete.
func (w *logWriter) view(v *Installed) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, sg := range w.subgroups {
		if !sg.Async {
			w.closeRun(i)
		}
	}
	w.frame(frameView, v)
	w.write()
}

// deliver notes messages of a subgroup.
func (w *logWriter) deliver(subgroup int, batch []squall.Message) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range batch {
		d, err := w.subgroups[subgroup].content.read(m)
		if err != nil {
			w.frame(frameBad, err.Error())
			continue
		}
		w.add(subgroup, m, d)
	}
	if len(w.buf) > 0 {
		w.write()
	}
}

// add puts a message into the open run of its subgroup.
func (w *logWriter) add(subgroup int, m squall.Message, d told) {
	r := &w.runs[subgroup]
	if len(r.Digests) > 0 && r.View != m.View || !r.fits(m, d) {
		w.closeRun(subgroup)
	}
	if r.View != m.View {
		*r = Run{Subgroup: subgroup, View: m.View, Parts: r.Parts[:0], Digests: r.Digests[:0], expectation: r.expectation[:0]}
	}
	r.take(m, d)
	if (r.First+uint64(len(r.Digests)))%uint64(w.length) == 0 {
		w.closeRun(subgroup)
	}
}

// fits reports whether a message follows the run's last one, and its process's last one in the run.
func (r *Run) fits(m squall.Message, d told) bool {
	if len(r.Digests) > 0 && m.Seq <= r.Seqs[1] {
		return false
	}
	for i, p := range r.Parts {
		if p.Life == d.life {
			return r.expectation[i] == d.number
		}
	}
	return true
}

func (r *Run) take(m squall.Message, d told) {
	if len(r.Digests) == 0 {
		r.Seqs[0] = m.Seq
	}
	r.Seqs[1] = m.Seq
	h := hashOf(m)
	r.Hash = mix(r.Hash ^ h)
	r.Digests = append(r.Digests, byte(h>>20))
	for i := range r.Parts {
		if r.Parts[i].Life == d.life {
			r.Parts[i].Count++
			r.expectation[i]++
			return
		}
	}
	r.Parts = append(r.Parts, Part{d.life, d.number, 1})
	r.expectation = append(r.expectation, d.number+1)
}

// closeRun writes an open run, and begins the next one of its view.
func (w *logWriter) closeRun(subgroup int) {
	r := &w.runs[subgroup]
	if len(r.Digests) == 0 {
		return
	}
	w.raw(frameRun, r.append(nil))
	r.First += uint64(len(r.Digests))
	r.Hash, r.Parts, r.Digests, r.expectation = 0, r.Parts[:0], r.Digests[:0], r.expectation[:0]
}

// append encodes a run.
func (r *Run) append(b []byte) []byte {
	for _, v := range []uint64{uint64(r.Subgroup), uint64(r.View), r.First, uint64(r.Seqs[0]), uint64(r.Seqs[1]), r.Hash, uint64(len(r.Parts))} {
		b = binary.AppendUvarint(b, v)
	}
	for _, p := range r.Parts {
		b = binary.AppendUvarint(b, uint64(p.Life))
		b = binary.AppendUvarint(b, p.From)
		b = binary.AppendUvarint(b, p.Count)
	}
	return append(b, r.Digests...)
}

// end writes what is left, and how the process ended.
func (w *logWriter) end(e End) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.runs {
		w.closeRun(i)
	}
	w.frame(frameEnd, e)
	w.write()
	return errors.Join(w.failed, w.file.Close())
}

// full reports whether the log took all that it may.
func (w *logWriter) full() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit > 0 && w.size > w.limit
}

func (w *logWriter) frame(kind byte, v any) {
	payload, err := json.Marshal(v)
	w.failed = errors.Join(w.failed, err)
	w.raw(kind, payload)
}

func (w *logWriter) raw(kind byte, payload []byte) {
	w.buf = append(w.buf, kind)
	w.buf = binary.AppendUvarint(w.buf, uint64(len(payload)))
	w.buf = append(w.buf, payload...)
}

func (w *logWriter) write() {
	n, err := w.file.Write(w.buf)
	w.size += int64(n)
	w.buf = w.buf[:0]
	if err != nil && w.failed == nil {
		w.failed = err
	}
}
