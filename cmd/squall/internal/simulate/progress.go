package simulate

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/squall-go/squall/internal/sim"
)

// tellEvery is the time between two lines where there is no terminal.
const tellEvery = 15 * time.Second

// progress shows how many seeds were played: as a bar on a terminal, elsewhere as a line now and then.
type progress struct {
	w           io.Writer
	bar         *progressbar.ProgressBar
	start, told time.Time
	total       uint64
}

func newProgress(w io.Writer, total uint64) *progress {
	p := &progress{w: w, start: time.Now(), told: time.Now(), total: total}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions64(int64(total), progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("simulating"), progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("seeds"),
			progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return p
}

// set is called after every run, by one goroutine at a time.
func (p *progress) set(c *sim.Campaign) {
	switch {
	case p.bar != nil:
		p.bar.Set64(int64(c.Seeds))
	case time.Since(p.told) > tellEvery:
		p.told = time.Now()
		perSecond := float64(c.Seeds) / time.Since(p.start).Seconds()
		left := time.Duration(float64(p.total-c.Seeds) / perSecond * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(p.w, "%d of %d seeds, %.0f seeds/s, about %v left\n", c.Seeds, p.total, perSecond, left)
	}
}

func (p *progress) done() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar.Exit()
	}
}
