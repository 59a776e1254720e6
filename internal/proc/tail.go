package proc

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// longestLine is how much of a line is kept, in bytes.
const longestLine = 500

// tail is a writer that keeps the last lines. Of a panic it keeps the first ones, which say what it
// was.
type tail struct {
	mu    sync.Mutex
	keep  int
	panic bool
	lines []string
	part  []byte    // the line that has not ended
	log   io.Writer // gets everything, or nil
}

func newTail(keep int, log io.Writer) *tail {
	if keep == 0 && log == nil {
		keep = 5
	}
	return &tail{keep: max(keep, 0), log: log}
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
	line := strings.TrimSpace(string(t.part))
	t.part = t.part[:0]
	if line == "" || t.panic && len(t.lines) >= t.keep {
		return
	}
	if !t.panic && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
		t.panic, t.lines = true, nil
	}
	t.lines = append(t.lines, line)
	t.lines = t.lines[max(0, len(t.lines)-t.keep):]
}

// last returns the last lines, the unfinished one with them.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	return append([]string(nil), t.lines...)
}
