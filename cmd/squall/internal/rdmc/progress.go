package rdmc

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// tellEvery is the time between two lines where there is no terminal.
const tellEvery = 15 * time.Second

// progress shows how many cases were played: as a bar on a terminal, elsewhere as a line now and then.
type progress struct {
	w           io.Writer
	bar         *progressbar.ProgressBar
	told        time.Time
	done, total int
}

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, told: time.Now(), total: total}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("computing"), progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return p
}

func (p *progress) end() {
	p.done++
	switch {
	case p.bar != nil:
		p.bar.Add(1)
	case time.Since(p.told) > tellEvery:
		p.told = time.Now()
		fmt.Fprintf(p.w, "%d of %d cases\n", p.done, p.total)
	}
}

func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar.Exit()
	}
}
