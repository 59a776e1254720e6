package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/squall-go/squall"
)

// Happening is something that happened in a run.
type Happening struct {
	Seconds float64         `json:"seconds"` // since the group formed
	What    string          `json:"what"`
	Node    squall.NodeID   `json:"node,omitempty"`
	Process int             `json:"process,omitempty"`
	View    squall.ViewID   `json:"view,omitempty"`
	Nodes   []squall.NodeID `json:"nodes,omitempty"`     // of the view, by rank
	Source  squall.NodeID   `json:"source,omitempty"`    // of the state
	Count   uint64          `json:"messages,omitempty"`  // that the state stands for, or that were delivered
	TookNs  int64           `json:"took_ns,omitempty"`   // to hand the state over
	HangsNs int64           `json:"hangs_ns,omitempty"`  // at least
	More    uint64          `json:"more,omitempty"`      // messages that some log has besides
	Detail  string          `json:"detail,omitempty"`    // in words
	Again   bool            `json:"same_node,omitempty"` // the node was there before
}

// Pause is the longest time without a delivery that a member saw around a change of the view.
type Pause struct {
	Node squall.NodeID `json:"node"`
	Ns   int64         `json:"ns"`
}

// What can happen.
const (
	whatView      = "view"
	whatKilled    = "killed"
	whatHung      = "hung"
	whatContinued = "continued"
	whatEvicted   = "evicted"
	whatLeaves    = "leaves"
	whatLeft      = "left"
	whatStarted   = "started"
	whatRestored  = "restored"
	whatQuiet     = "quiet"
	whatAllKilled = "all killed"
	whatDisks     = "disks"
	whatWaits     = "waits"
	whatRecovered = "recovered"
)

func (h Happening) String() string { return fmt.Sprintf("%7.3fs  %s", h.Seconds, h.text()) }

func (h Happening) text() string {
	switch h.What {
	case whatView:
		return fmt.Sprintf("view %d: nodes %s", h.View, strings.Trim(fmt.Sprint(h.Nodes), "[]"))
	case whatKilled:
		return fmt.Sprintf("node %d killed", h.Node)
	case whatHung:
		return fmt.Sprintf("node %d hangs, for %s", h.Node, time.Duration(h.HangsNs).Round(time.Millisecond))
	case whatContinued:
		return fmt.Sprintf("node %d goes on", h.Node)
	case whatEvicted:
		why, _, _ := strings.Cut(h.Detail, ";")
		return fmt.Sprintf("node %d is out: %s", h.Node, why)
	case whatLeaves:
		return fmt.Sprintf("node %d leaves", h.Node)
	case whatLeft:
		return fmt.Sprintf("node %d has left", h.Node)
	case whatStarted:
		again := map[bool]string{true: " again"}[h.Again]
		return fmt.Sprintf("node %d starts%s (process %d)", h.Node, again, h.Process)
	case whatRestored:
		return h.state(fmt.Sprintf("node %d", h.Source))
	case whatQuiet:
		return "all stop sending"
	case whatAllKilled:
		return fmt.Sprintf("all killed; %s messages were acknowledged", humanize.Comma(int64(h.Count)))
	case whatDisks:
		return fmt.Sprintf("the logs, record by record: %s messages are on every disk, the same ones%s", humanize.Comma(int64(h.Count)), h.besides())
	case whatWaits:
		return fmt.Sprintf("node %d waits for %s", h.Node, h.Detail)
	case whatRecovered:
		return h.state("its log")
	}
	return h.What
}

// state says that a node has the state.
func (h Happening) state(from string) string {
	return fmt.Sprintf("node %d has the state of %s messages, from %s, after %s", h.Node, humanize.Comma(int64(h.Count)), from, milliseconds(h.TookNs))
}

// besides says what one log has and another one lacks.
func (h Happening) besides() string {
	if h.More == 0 {
		return ""
	}
	return fmt.Sprintf("; one has %s more, which were not acknowledged", humanize.Comma(int64(h.More)))
}

// milliseconds prints a time as people read it here.
func milliseconds(ns int64) string {
	ms := float64(ns) / 1e6
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return humanize.Comma(int64(ms+0.5)) + " ms"
}

// story tells what happens while it does.
type story struct {
	out   io.Writer // nil: no output
	start time.Time
	all   []*Happening
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

// tell adds what happens now.
func (s *story) tell(h Happening) {
	h.Seconds = s.now().Round(time.Millisecond).Seconds()
	s.all = append(s.all, &h)
	if s.out != nil {
		fmt.Fprintln(s.out, h)
	}
}
