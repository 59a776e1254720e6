package logs

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/squall-go/squall/persist"
)

const (
	// barAfter is how long work takes before a bar is shown: what is over at once needs none.
	barAfter = 500 * time.Millisecond
	// tellEvery is the time between two lines where there is no terminal.
	tellEvery = 15 * time.Second
)

// progress shows how far a log has been read: as a bar on a terminal, elsewhere as a line now and then. Nil shows nothing.
type progress struct {
	w io.Writer

	mu          sync.Mutex
	ended       bool
	what        string // directory and log
	start, told time.Time
	bar         *progressbar.ProgressBar
}

// set says how many blocks of a log have been read.
func (p *progress) set(ctx context.Context, dir string, at persist.Progress) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(dir + ", log " + at.Log.String())
	done, total := int64(at.Block-at.First+1), int64(at.Last-at.First+1)
	switch {
	case p.ended || ctx.Err() != nil || time.Since(p.start) < barAfter:
	case p.bar == nil && p.terminal():
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(p.what), progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish())
		p.bar.Set64(done)
	case p.bar != nil:
		p.bar.Set64(done)
	case time.Since(p.told) > tellEvery:
		p.told = time.Now()
		fmt.Fprintf(p.w, "%s: %d of %d blocks\n", p.what, done, total)
	}
}

// say tells what takes long now.
func (p *progress) say(ctx context.Context, what string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	shown := p.bar != nil
	p.begin(what)
	if shown && !p.ended && ctx.Err() == nil {
		fmt.Fprintln(p.w, what)
	}
}

// begin takes the bar of something else away. It needs mu.
func (p *progress) begin(what string) {
	if p.what == what {
		return
	}
	p.clear()
	p.what, p.start, p.told = what, time.Now(), time.Now()
}

func (p *progress) terminal() bool {
	f, ok := p.w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar.Exit()
		p.bar = nil
	}
}

// end takes the bar away for good.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.clear()
}
