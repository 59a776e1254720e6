package ripc

import (
	"fmt"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/table"
)

// peer is a connected process: the shell around the two halves of a pair.
type peer struct {
	e      *Endpoint
	who    Peer
	viewer uint64      // its number among the connections of the endpoint: tells memory that it saw from memory that others saw
	direct bool        // the peer reads the own row itself
	stirs  atomic.Bool // set: a sender notes the peer with the endpoint, because the peer is not hot
	send   sender

	// The rest is under the endpoint's mu.
	line    line
	rx      *pair.Receiver
	member  table.Member[*peer] // of its account
	spot    table.Spot[*peer]   // among the peers that are polled
	life    table.Life
	why     error // it ended
	calls   pair.Calls[*waiter]
	served  served
	opened  opened
	answers table.Answers // frames that found no room
	long    longs
}

// served is the channels on which the peer sends.
type served struct {
	in     [pair.Channels]*inbound
	states pair.Servings
	owed   int // channels that the peer left, and of which it waits for the last count
}

// opened is the channels on which this side sends.
type opened struct {
	out     [pair.Channels]*Remote
	states  pair.Openings
	wanting []*waiter       // for a channel that is not used
	drains  int             // channels that were left and may still be received: the peer tells at once what it received
	pins    map[pin]*Remote // addresses in the process of the peer
}

// other returns another channel between the two services of a channel, or nil.
func (s *served) other(in *inbound) *inbound {
	for _, o := range s.in {
		if o != nil && o != in && o.service == in.service && o.number == in.number {
			return o
		}
	}
	return nil
}

// inbound is a channel on which the peer sends.
type inbound struct {
	service *Service
	channel int
	from    ID
	number  uint32 // of the sending service in its endpoint
	notices bool
	back    *Remote // to the sending service, the same for all of its channels to this one
	board   pair.Notices
	listed  bool     // among the boards of the service
	callers *callers // the channel carries streams
}

// ended reports whether the pair has ended. The caller holds the endpoint's mu.
func (p *peer) ended() bool { return p.life.HasEnded() }

// opening is what a process says when it opens a channel.
type opening struct {
	From    ID     `json:"from"`
	Number  uint32 `json:"number"`            // of the sending service in its endpoint
	To      ID     `json:"to,omitempty"`      // the service to which it leads
	Back    uint32 `json:"back,omitempty"`    // its number, if that is how it is known
	Notices bool   `json:"notices,omitempty"` // the channel carries notices only
	Streams bool   `json:"streams,omitempty"` // the channel carries streams only
}

const stepFrames = 512 // taken from one peer before the others have their turn

// step takes in what the peer sent, and sends what waits. The caller holds the endpoint's mu.
func (p *peer) step() (worked bool) {
	if p.ended() {
		return false
	}
	worked, err := p.line.link.Poll()
	if p.take(stepFrames) > 0 {
		worked = true
	}
	if err != nil {
		p.fail(err)
		return true
	}
	if p.ended() {
		return true
	}
	if p.rx.Answer() {
		p.tell()
	}
	if p.answers.Len() > 0 && p.sendAnswers() {
		worked = true
	}
	p.wakeSenders()
	if !p.direct && !p.ended() {
		if p.rx.Urgent() {
			p.line.pushLines(p.rx.Lines())
		}
		p.flush()
	}
	return worked
}

// take takes frames from the ring, and returns how many.
func (p *peer) take(most int) (taken int) {
	for taken < most && !p.ended() {
		f, err := p.rx.Next()
		if err == nil {
			if f == nil {
				break
			}
			err = p.dispatch(f)
		}
		taken++
		if err != nil {
			p.fail(err)
			break
		}
	}
	p.rx.Ahead(taken == most)
	return taken
}

// dispatch hands a frame to its service, caller or stream.
func (p *peer) dispatch(f *pair.Frame) error {
	switch f.Kind {
	case pair.Message, pair.Request, pair.Notice:
		if err := p.served.states.Takes(f.Kind, f.Channel); err != nil {
			return err
		}
		in := p.served.in[f.Channel]
		if in.notices != (f.Kind == pair.Notice) {
			return fmt.Errorf("%w: a %v on channel %d, which is not open for it", fabric.ErrViolation, f.Kind, f.Channel)
		}
		if in.callers != nil {
			return p.streamed(in, f)
		}
		if in.service.closed {
			p.turnAway(f)
			return nil
		}
		p.life.Keep()
		in.service.arrived(p, in, f)
		return nil
	case pair.Reply, pair.Refusal:
		w, ok := p.calls.End(f.ID)
		if !ok {
			p.rx.Free(f)
			return nil
		}
		p.life.Keep()
		w.frame, w.answered = f, true
		p.rx.Received(f)
		p.e.rouse(w)
		return nil
	case pair.Ping:
		p.say(pair.Reply, 0, f.ID, nil)
		p.rx.Free(f)
		return nil
	case pair.Open:
		err := p.open(f)
		p.rx.Free(f)
		return err
	case pair.Left:
		err := p.wasLeft(f.Channel)
		p.rx.Free(f)
		return err
	case pair.Opened, pair.Closed:
		err := p.answered(f)
		p.rx.Free(f)
		return err
	case pair.Offered:
		return p.offered(f)
	case pair.Granted, pair.Denied, pair.Here, pair.Freed:
		err := p.heard(f)
		p.rx.Free(f)
		return err
	case pair.Withdrawn:
		p.withdrawn(f)
		p.rx.Free(f)
		return nil
	}
	return fmt.Errorf("%w: a frame of %v", fabric.ErrViolation, f.Kind)
}

// turnAway frees a frame that will not be received. Its sender learns that when the channel ends.
func (p *peer) turnAway(f *pair.Frame) {
	if m, long := f.Tag.(*receiving); long {
		p.turnLongAway(m)
		return
	}
	p.rx.Free(f)
	p.tell()
}
