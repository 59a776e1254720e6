package show

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
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
	drawn       time.Time // when the bar was; zero: there is none
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
	p.What = what
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
	if !p.drawn.IsZero() {
		fmt.Fprint(p.To, "\r\x1b[K")
		p.drawn = time.Time{}
	}
}

// drawEvery is the time between two bars.
const drawEvery = 100 * time.Millisecond

// show needs mu.
func (p *Progress) show() {
	switch {
	case p.ended || time.Since(p.start) < p.After:
	case IsTerminal(p.To):
		if time.Since(p.drawn) > drawEvery {
			p.drawn = time.Now()
			fmt.Fprint(p.To, "\r", p.bar(time.Since(p.start), columns(p.To)), "\x1b[K")
		}
	case !p.Quiet && time.Since(p.told) > tellEvery:
		p.told = time.Now()
		fmt.Fprintln(p.To, p.line(time.Since(p.start)))
	}
}

// columns is the width of a terminal.
func columns(w io.Writer) int {
	if o, ok := w.(*Output); ok {
		w = o.to
	}
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 80
}

// bar is what a terminal of some columns shows.
func (p *Progress) bar(after time.Duration, columns int) string {
	const width = 30
	part := min(1, float64(p.done)/float64(max(1, p.Total)))
	full := int(part * width)
	text := fmt.Sprintf("%3.0f%% |%s%s| %s", 100*part, strings.Repeat("█", full), strings.Repeat(" ", width-full), p.count(after))
	what := []rune(p.What)
	if most := max(0, columns-utf8.RuneCountInString(text)-2); len(what) > most {
		what = what[:most]
	}
	line := []rune(string(what) + " " + text)
	return string(line[:min(len(line), max(0, columns-1))])
}

// count is how much is done, how fast, and how long it took and will take.
func (p *Progress) count(after time.Duration) string {
	done, total, rate := fmt.Sprint(p.done), fmt.Sprint(p.Total), ""
	perSecond := float64(p.done) / max(after.Seconds(), 1e-3)
	switch {
	case p.Bytes:
		done, total, rate = humanize.Bytes(uint64(p.done)), humanize.Bytes(uint64(p.Total)), ", "+humanize.Bytes(uint64(perSecond))+"/s"
	case p.Unit != "":
		rate = fmt.Sprintf(", %s %s/s", humanize.Comma(int64(perSecond)), p.Unit)
	}
	return fmt.Sprintf("(%s/%s%s) [%v:%v]", done, total, rate, after.Round(time.Second), p.left(after))
}

// left is about how long the rest takes.
func (p *Progress) left(after time.Duration) time.Duration {
	return time.Duration(float64(after) / float64(max(1, p.done)) * float64(p.Total-p.done)).Round(time.Second)
}

// line is what is told after some time where there is no bar.
func (p *Progress) line(after time.Duration) string {
	left := p.left(after)
	if p.Bytes {
		return fmt.Sprintf("%s: %s of %s, about %v left", p.What, humanize.Bytes(uint64(p.done)), humanize.Bytes(uint64(p.Total)), left)
	}
	unit := p.Unit
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Sprintf("%s: %d of %d%s, about %v left", p.What, p.done, p.Total, unit, left)
}
