package proc

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// longestLine is how much of a line is kept, in bytes.
const longestLine = 500

// tail is a writer that keeps the last lines.
type tail struct {
	mu    sync.Mutex
	keep  int
	lines []string
	part  []byte    // the line that has not ended
	log   io.Writer // gets everything, or nil
}

func newTail(keep int, log io.Writer) *tail {
	if keep == 0 {
		keep = 5
	}
	return &tail{keep: keep, log: log}
}

func (t *tail) Write(p []byte) (int, error) {
	if t.log != nil {
		t.log.Write(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		t.part = append(t.part, line[:min(len(line), longestLine-min(len(t.part), longestLine))]...)
		if ended {
			t.endLine()
		}
		rest = after
	}
	return len(p), nil
}

func (t *tail) endLine() {
	if line := strings.TrimSpace(string(t.part)); line != "" {
		t.lines = append(t.lines, line)
	}
	t.part = t.part[:0]
	t.lines = t.lines[max(0, len(t.lines)-t.keep):]
}

// last returns the last lines, the unfinished one with them.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	return append([]string(nil), t.lines...)
}
