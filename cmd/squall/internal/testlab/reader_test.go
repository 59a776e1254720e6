package testlab

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/squall-go/squall"
)

// parseRun is the opposite of append. Digests are part of b.
func parseRun(b []byte) (r Run, err error) {
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err, n = errors.New("a run is cut off"), 0
		}
		b = b[n:]
		return v
	}
	r.Subgroup, r.View, r.First = int(next()), squall.ViewID(next()), next()
	r.Seqs = [2]squall.Seq{squall.Seq(next()), squall.Seq(next())}
	r.Hash = next()
	parts := next()
	for i := uint64(0); i < parts && err == nil; i++ {
		r.Parts = append(r.Parts, Part{int(next()), next(), next()})
	}
	r.Digests = b
	return r, err
}

// Log is what one process wrote.
type Log struct {
	Header
	Views []Installed
	Runs  []Run
	Bad   []string
	End   *End // nil: it was killed
}

// errNoLog is returned for the log of a process that did not come to write even its header.
var errNoLog = errors.New("no header")

// ReadLog reads a log. Its last frame may be cut off.
func ReadLog(path string) (*Log, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", errNoLog, err)
	}
	if err != nil {
		return nil, err
	}
	l := &Log{}
	for at := 0; ; {
		kind, payload, next := frameAt(data, at)
		if next == 0 {
			break
		}
		if err := l.add(kind, payload); err != nil {
			return nil, fmt.Errorf("%s at byte %d: %w", path, at, err)
		}
		at = next
	}
	if l.Life == 0 {
		return nil, fmt.Errorf("%s: %w", path, errNoLog)
	}
	return l, nil
}

// frameAt is the frame at a place, and where the next one begins; 0 if the frame is not whole.
func frameAt(data []byte, at int) (kind byte, payload []byte, next int) {
	if at >= len(data) {
		return 0, nil, 0
	}
	length, n := binary.Uvarint(data[at+1:])
	from := at + 1 + n
	if n <= 0 || length > uint64(len(data)-from) {
		return 0, nil, 0
	}
	next = from + int(length)
	return data[at], data[from:next:next], next
}

func (l *Log) add(kind byte, payload []byte) (err error) {
	switch kind {
	case frameHeader:
		return json.Unmarshal(payload, &l.Header)
	case frameView:
		l.Views = append(l.Views, Installed{})
		return json.Unmarshal(payload, &l.Views[len(l.Views)-1])
	case frameBad:
		l.Bad = append(l.Bad, "")
		return json.Unmarshal(payload, &l.Bad[len(l.Bad)-1])
	case frameEnd:
		l.End = &End{}
		return json.Unmarshal(payload, l.End)
	case frameRun:
		r, err := parseRun(payload)
		if len(l.Views) > 0 {
			r.Latest = l.Views[len(l.Views)-1].ID
		}
		l.Runs = append(l.Runs, r)
		if err == nil && r.Subgroup >= len(l.Subgroups) {
			err = fmt.Errorf("a run of subgroup %d", r.Subgroup)
		}
		return err
	}
	return fmt.Errorf("a frame of kind %q", kind)
}
