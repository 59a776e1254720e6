package show

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// tellEvery is the time between two lines where there is no terminal.
const tellEvery = 15 * time.Second

// IsTerminal reports whether a person watches.
func IsTerminal(w io.Writer) bool {
	if o, ok := w.(*Output); ok {
		w = o.to
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Progress shows how far some work is: as a bar on a terminal, elsewhere as a line now and then.
// Nil shows nothing. Its methods may be called from any goroutine.
type Progress struct {
	ProgressConfig

	mu          sync.Mutex
	ended       bool
	start, told time.Time
	done        int64
	bar         *progressbar.ProgressBar
}

// ProgressConfig says of what the progress is.
type ProgressConfig struct {
	To    io.Writer
	What  string // is done
	Total int64
	Unit  string        // of the total, like "seeds"; the bar then shows a rate
	Bytes bool          // the total is a number of bytes
	After time.Duration // how long the work takes before anything is shown
	Quiet bool          // nothing is shown where there is no terminal
}

// NewProgress begins to show the progress of some work.
func NewProgress(c ProgressConfig) *Progress {
	return &Progress{ProgressConfig: c, start: time.Now(), told: time.Now()}
}

// Begin shows that something else is done from now on.
func (p *Progress) Begin(what string, total int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.What != what || p.Total != total {
		p.clear()
		p.What, p.Total, p.done, p.start, p.told = what, total, 0, time.Now(), time.Now()
	}
}

// Describe shows what the next step of the same work is.
func (p *Progress) Describe(what string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.What = what; p.bar != nil {
		p.bar.Describe(what)
	}
	p.show()
}

// Set shows how much is done. A value that comes late, behind a greater one, changes nothing.
func (p *Progress) Set(done int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = max(p.done, done)
	p.show()
}

// Add shows that one more is done.
func (p *Progress) Add() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.show()
}

// End takes the bar away.
func (p *Progress) End() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.clear()
}

// clear needs mu.
func (p *Progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar.Exit()
		p.bar = nil
	}
}

// show needs mu.
func (p *Progress) show() {
	switch {
	case p.ended || time.Since(p.start) < p.After:
	case IsTerminal(p.To):
		if p.bar == nil {
			p.bar = p.newBar()
		}
		p.bar.Set64(p.done)
	case !p.Quiet && time.Since(p.told) > tellEvery:
		p.told = time.Now()
		fmt.Fprintln(p.To, p.line(time.Since(p.start)))
	}
}

func (p *Progress) newBar() *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(p.To), progressbar.OptionSetDescription(p.What), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish(),
	}
	if p.Bytes {
		options = append(options, progressbar.OptionShowBytes(true))
	}
	if p.Unit != "" {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString(p.Unit))
	}
	return progressbar.NewOptions64(p.Total, options...)
}

// line is what is told after some time where there is no bar.
func (p *Progress) line(after time.Duration) string {
	left := time.Duration(float64(after) / float64(max(1, p.done)) * float64(p.Total-p.done)).Round(time.Second)
	if p.Bytes {
		return fmt.Sprintf("%s: %s of %s, about %v left", p.What, humanize.Bytes(uint64(p.done)), humanize.Bytes(uint64(p.Total)), left)
	}
	unit := p.Unit
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Sprintf("%s: %d of %d%s, about %v left", p.What, p.done, p.Total, unit, left)
}
