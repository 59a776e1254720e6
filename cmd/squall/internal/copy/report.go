package copy

import (
	"fmt"
	"io"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// Tally is what a push consists of.
type Tally struct {
	Files       int   `json:"files"`
	Directories int   `json:"directories"`
	Links       int   `json:"links"`
	Bytes       int64 `json:"bytes"`
}

func tallyOf(entries []entry, total int64) Tally {
	t := Tally{Bytes: total}
	for i := range entries {
		switch entries[i].Kind {
		case file:
			t.Files++
		case directory:
			t.Directories++
		case link:
			t.Links++
		}
	}
	return t
}

func (t Tally) String() string {
	text := show.Counted(t.Files, "file", "files")
	if t.Directories > 0 {
		text += ", " + show.Counted(t.Directories, "directory", "directories")
	}
	if t.Links > 0 {
		text += ", " + show.Counted(t.Links, "link", "links")
	}
	return text
}

// rate is bytes per second for people.
func rate(bytes int64, seconds float64) string {
	return show.Bytes(int64(perSecond(bytes, seconds))) + "/s"
}

// perSecond is 0 of what was never done.
func perSecond(bytes int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) / seconds
}

// Pushed is what came of a push, at the pusher; with --json it is printed as it is.
type Pushed struct {
	Tally
	Seconds        float64    `json:"seconds"`
	BytesPerSecond float64    `json:"bytes_per_second"` // at each receiver
	Schedule       string     `json:"schedule"`
	Receivers      []Receiver `json:"receivers"`
	Error          string     `json:"error,omitempty"`
}

// Receiver is the result of one receiver.
type Receiver struct {
	Addr   string   `json:"addr"`
	Rack   string   `json:"rack,omitempty"`
	Faults []string `json:"faults,omitempty"` // why it took nothing
}

func (p *Pushed) text() string {
	return fmt.Sprintf("%s (%s) to %s in %.1f s: %s to each, %s together\n", show.Bytes(p.Bytes), p.Tally, show.Counted(len(p.Receivers), "receiver", "receivers"),
		p.Seconds, rate(p.Bytes, p.Seconds), rate(p.Bytes*int64(len(p.Receivers)), p.Seconds))
}

// Received is what came of a push at a receiver; with --json it is printed as it is.
type Received struct {
	Tally
	From           string  `json:"from"`
	Seconds        float64 `json:"seconds"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	Error          string  `json:"error,omitempty"`

	started time.Time
}

func (r *Received) text() string {
	return fmt.Sprintf("received %s (%s) from %s in %.1f s: %s\n", show.Bytes(r.Bytes), r.Tally, r.From, r.Seconds, rate(r.Bytes, r.Seconds))
}

// newProgress shows how many bytes are done with.
func newProgress(w io.Writer, what string, total int64) *show.Progress {
	return show.NewProgress(show.ProgressConfig{To: w, What: what, Total: total, Bytes: true})
}
