package copy

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// tellEvery is the time between two lines where there is no terminal.
const tellEvery = 15 * time.Second

// progress shows how many bytes are done with: as a bar with its rate on a terminal, elsewhere as a line now and then. Nil shows
// nothing.
type progress struct {
	w      io.Writer
	what   string
	pieces []piece
	total  int64

	mu          sync.Mutex
	bar         *progressbar.ProgressBar
	start, told time.Time
	seen        int // pieces
	done        int64
}

func newProgress(w io.Writer, what string, pieces []piece) *progress {
	p := &progress{w: w, what: what, pieces: pieces, start: time.Now(), told: time.Now()}
	for i := range pieces {
		p.total += pieces[i].bytes
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions64(p.total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(30),
			progressbar.OptionShowBytes(true), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return p
}

// set says how many pieces are done with. The count of an earlier call that comes late is not heeded.
func (p *progress) set(pieces int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; p.seen < min(pieces, len(p.pieces)); p.seen++ {
		p.done += p.pieces[p.seen].bytes
	}
	switch {
	case p.bar != nil:
		p.bar.Set64(p.done)
	case time.Since(p.told) > tellEvery:
		p.told = time.Now()
		fmt.Fprintf(p.w, "%s: %s of %s, %s\n", p.what, size(p.done), size(p.total), rate(p.done, time.Since(p.start).Seconds()))
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Clear()
		p.bar.Exit()
		p.bar = nil
	}
	p.told = time.Now().Add(time.Hour) // nothing more
}
