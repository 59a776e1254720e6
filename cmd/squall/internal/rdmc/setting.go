package rdmc

import (
	"fmt"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/linkmodel"
	"github.com/squall-go/squall/rdmc/schedule"
)

// links is what lies between members, however many they are.
type links struct {
	rate                      float64 // bytes/s
	latency, overhead, jitter time.Duration
	seed                      uint64
	intake                    linkmodel.Intake
	rackSize                  int     // 0: no racks
	oversubscription          float64 // 0: none
	slowLinks                 []linkmodel.SlowLink
}

func (l links) network(nodes int) linkmodel.Network {
	return linkmodel.Network{
		Nodes: nodes, Rate: l.rate, Latency: l.latency, Overhead: l.overhead, Jitter: l.jitter, Seed: l.seed, Intake: l.intake,
		SlowLinks: l.slowLinks, Racks: labels(nodes, l.rackSize), Oversubscription: l.oversubscription,
	}
}

// setting is all that determines what a case comes to.
type setting struct {
	schedule    schedule.Algorithm
	nodes       int
	senders     int // each is the root of a group of all nodes; they are spread evenly
	bytes       int64
	blockBytes  int64
	links       links
	undisturbed bool // play it without the slow links too
}

// Point is what a case came to. With several senders, time is until everything was everywhere.
type Point struct {
	Nodes       int     `json:"nodes"`
	Schedule    string  `json:"schedule"`
	Senders     int     `json:"senders"`
	Bytes       int64   `json:"bytes"` // of each sender's message
	BlockBytes  int64   `json:"block_bytes"`
	Steps       int     `json:"steps"`
	Seconds     float64 `json:"seconds"`
	SkewSeconds float64 `json:"skew_seconds"` // from the first receiver that had everything to the last; the worst of the senders'
	BytesRate   float64 `json:"bytes_per_s"`  // of messages, all senders together
	OfSteps     float64 `json:"of_steps"`     // time over what the steps of one message take without latency and jitter
	Left        float64 `json:"left,omitempty"`
	CrossBytes  int64   `json:"cross_bytes"` // from rack to rack
	Utilisation float64 `json:"utilisation"` // of all that the members could have sent
}

// transfers are one for each sender. Its group is all nodes, counted from the sender on.
func (s setting) transfers() ([]linkmodel.Transfer, error) {
	var all []linkmodel.Transfer
	racks, blocks := labels(s.nodes, s.links.rackSize), int((s.bytes-1)/s.blockBytes+1)
	for i := range s.senders {
		t := linkmodel.Transfer{Bytes: s.bytes, BlockBytes: s.blockBytes}
		var own []string
		for rank := range s.nodes {
			node := (rank + i*s.nodes/s.senders) % s.nodes
			t.Nodes = append(t.Nodes, node)
			if racks != nil {
				own = append(own, racks[node])
			}
		}
		var err error
		if t.Plan, err = schedule.New(s.schedule, s.nodes, blocks, own); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// play computes the point.
func (s setting) play() (Point, error) {
	transfers, err := s.transfers()
	if err != nil {
		return Point{}, err
	}
	r, err := linkmodel.Run(s.links.network(s.nodes), transfers...)
	if err != nil {
		return Point{}, fmt.Errorf("%v among %d: %w", s.schedule, s.nodes, err)
	}
	p := Point{
		Nodes: s.nodes, Schedule: transfers[0].Plan.Algorithm().String(), Senders: s.senders, Bytes: s.bytes, BlockBytes: s.blockBytes,
		Steps: transfers[0].Plan.Steps(), Seconds: r.Time.Seconds(), CrossBytes: r.CrossBytes, Utilisation: r.Utilisation,
	}
	for _, o := range r.Transfers {
		p.SkewSeconds = max(p.SkewSeconds, o.Skew.Seconds())
	}
	p.BytesRate = float64(s.bytes) * float64(s.senders) / p.Seconds
	block := s.links.overhead.Seconds() + float64(min(s.bytes, s.blockBytes))/s.links.rate
	p.OfSteps = p.Seconds / (float64(p.Steps) * block)
	if s.undisturbed {
		s.undisturbed, s.links.slowLinks = false, nil
		whole, err := s.play()
		if err != nil {
			return Point{}, err
		}
		p.Left = whole.Seconds / p.Seconds
	}
	return p, nil
}
