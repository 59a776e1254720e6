package demo

import (
	"fmt"
	"io"
	"slices"
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
	Pauses  []Pause         `json:"pauses,omitempty"`    // that members of the view and the one before saw
	Source  squall.NodeID   `json:"source,omitempty"`    // of the state
	Count   uint64          `json:"messages,omitempty"`  // that the state stands for, or that were delivered
	TookNs  int64           `json:"took_ns,omitempty"`   // to hand the state over
	HangsNs int64           `json:"hangs_ns,omitempty"`  // at least
	More    uint64          `json:"more,omitempty"`      // messages that some log has besides
	Detail  string          `json:"detail,omitempty"`    // in words
	Again   bool            `json:"same_node,omitempty"` // the node was there before

	shown []time.Duration // pauses, as they are told
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
		return fmt.Sprintf("view %d: nodes %s%s", h.View, strings.Trim(fmt.Sprint(h.Nodes), "[]"), h.pause())
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

// pause says how long the survivors delivered nothing.
func (h Happening) pause() string {
	if len(h.shown) == 0 {
		return ""
	}
	least, most := milliseconds(int64(slices.Min(h.shown))), milliseconds(int64(slices.Max(h.shown)))
	if least == most {
		return fmt.Sprintf("; no deliveries for %s", most)
	}
	return fmt.Sprintf("; no deliveries for %s to %s", strings.TrimSuffix(least, " ms"), most)
}

// milliseconds prints a time as people read it here.
func milliseconds(ns int64) string {
	ms := float64(ns) / 1e6
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return humanize.Comma(int64(ms+0.5)) + " ms"
}

// story tells what happens while it does. A view is told when the pauses are known, and what comes
// after it waits for that.
type story struct {
	out   io.Writer // nil: no output
	start time.Time
	all   []*Happening
	told  int                      // of all
	held  map[*Happening]time.Time // not to be told before this
}

func newStory(out io.Writer) *story {
	return &story{out: out, start: time.Now(), held: map[*Happening]time.Time{}}
}

// title is told before anything happens.
func (s *story) title(text string) {
	if s.out != nil {
		fmt.Fprintln(s.out, text)
	}
}

// now is the time of the story.
func (s *story) now() time.Duration { return time.Since(s.start) }

// tell adds what happens now.
func (s *story) tell(h Happening) *Happening {
	h.Seconds = s.now().Round(time.Millisecond).Seconds()
	s.all = append(s.all, &h)
	s.flush()
	return &h
}

// hold adds what happens now, and of which more will be known soon.
func (s *story) hold(h Happening, atMost time.Duration) *Happening {
	h.Seconds = s.now().Round(time.Millisecond).Seconds()
	s.all = append(s.all, &h)
	s.held[&h] = time.Now().Add(atMost)
	return &h
}

// release says that all is known.
func (s *story) release(h *Happening) {
	delete(s.held, h)
	s.flush()
}

// tells reports whether something was told already.
func (s *story) tells(h *Happening) bool { return slices.Contains(s.all[:s.told], h) }

// flush tells what need not be held any more.
func (s *story) flush() {
	for ; s.told < len(s.all); s.told++ {
		h := s.all[s.told]
		if until, held := s.held[h]; held && time.Now().Before(until) {
			return
		}
		delete(s.held, h)
		if s.out != nil {
			fmt.Fprintln(s.out, h)
		}
	}
}

// end tells the rest.
func (s *story) end() {
	clear(s.held)
	s.flush()
}
