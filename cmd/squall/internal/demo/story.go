package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/squall-go/squall"
)

// Happening is something that happened in a run.
type Happening struct {
	Seconds float64       `json:"seconds"` // since the group formed
	What    string        `json:"what"`
	Node    squall.NodeID `json:"node,omitempty"`
	Process int           `json:"process,omitempty"`
	Text    string        `json:"text"` // for people
}

// story tells what happens while it does.
type story struct {
	out   io.Writer // nil: no output
	start time.Time
	all   []Happening
}

func newStory(out io.Writer) *story { return &story{out: out, start: time.Now()} }

// title is told before anything happens.
func (s *story) title(text string) {
	if s.out != nil {
		fmt.Fprintln(s.out, text)
	}
}

// now is the time of the story.
func (s *story) now() time.Duration { return time.Since(s.start) }

// tell adds what happens now, to a process or, without one, to all.
func (s *story) tell(what string, p *process, format string, args ...any) {
	h := Happening{Seconds: s.now().Round(time.Millisecond).Seconds(), What: what, Text: fmt.Sprintf(format, args...)}
	if p != nil {
		h.Node, h.Process = p.id, p.number
	}
	s.all = append(s.all, h)
	if s.out != nil {
		fmt.Fprintf(s.out, "%7.3fs  %s\n", h.Seconds, h.Text)
	}
}

// restored tells that a process has the state.
func (s *story) restored(p *process, messages uint64, from string, took time.Duration) {
	s.tell("restored", p, "node %d has the state of %s messages, from %s, after %s", p.id, comma(messages), from, milliseconds(took))
}

func comma(n uint64) string { return humanize.Comma(int64(n)) }

// milliseconds prints a time as people read it here.
func milliseconds(d time.Duration) string {
	ms := float64(d) / 1e6
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return humanize.Comma(int64(ms+0.5)) + " ms"
}
