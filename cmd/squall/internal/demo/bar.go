package demo

import (
	"io"

	"github.com/schollz/progressbar/v3"
)

// bar shows on a terminal how many messages every member has delivered. It is gone when done. Elsewhere it is nil, and shows
// nothing.
type bar struct{ *progressbar.ProgressBar }

func newBar(w io.Writer, total int64) *bar {
	if !isTerminal(w) {
		return nil
	}
	return &bar{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("delivering"), progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("msgs"),
		progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(),
	)}
}

func (b *bar) set(n uint64) {
	if b != nil {
		b.Set64(int64(n))
	}
}

func (b *bar) done() {
	if b != nil {
		b.Clear()
		b.Exit()
	}
}
