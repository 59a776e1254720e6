package benchrdmc

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress says what is measured, and how long the rest will take: on a terminal in one line that changes, elsewhere now and then.
type progress struct {
	w           io.Writer
	terminal    bool
	start, told time.Time
	done, total int
}

// tellEvery is the time between two lines where there is no terminal.
const tellEvery = 15 * time.Second

func newProgress(w io.Writer, total int) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd())), start: time.Now(), told: time.Now(), total: total}
}

// begin says what is measured next.
func (p *progress) begin(what string) {
	left := (time.Since(p.start) / time.Duration(max(1, p.done)) * time.Duration(p.total-p.done)).Round(time.Second)
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r\x1b[K%d of %d, about %v left: %s", p.done, p.total, left, what)
	case time.Since(p.told) > tellEvery:
		p.told = time.Now()
		fmt.Fprintf(p.w, "%d of %d, about %v left: %s\n", p.done, p.total, left, what)
	}
}

// end says that it was measured.
func (p *progress) end() {
	if p.done++; p.terminal && p.done == p.total {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
