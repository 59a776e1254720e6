package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows how far a measurement is and how long it will take: as a bar on a terminal, elsewhere as a line now and then. Nil
// shows nothing.
type Progress struct {
	w           io.Writer
	bar         *progressbar.ProgressBar
	start, told time.Time
	done, total int
}

// tellEvery is the time between two lines where there is no terminal.
const tellEvery = 15 * time.Second

// NewProgress shows on w how much of total is done.
func NewProgress(w io.Writer, total int) *Progress {
	p := &Progress{w: w, start: time.Now(), told: time.Now(), total: total}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(20), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())
	}
	return p
}

// Begin says what is measured next.
func (p *Progress) Begin(what string) {
	switch {
	case p == nil:
	case p.bar != nil:
		p.bar.Describe(what)
	case time.Since(p.told) > tellEvery:
		p.told = time.Now()
		fmt.Fprintf(p.w, "%d of %d, about %v left: %s\n", p.done, p.total, p.left(), what)
	}
}

// End says that it was measured.
func (p *Progress) End() {
	if p == nil {
		return
	}
	p.done++
	if p.bar != nil {
		p.bar.Add(1)
	}
}

// left is how long the rest will take if it goes on like this.
func (p *Progress) left() time.Duration {
	perStep := time.Since(p.start) / time.Duration(max(1, p.done))
	return (perStep * time.Duration(p.total-p.done)).Round(time.Second)
}
