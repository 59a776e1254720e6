package topics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
)

// endpoint is a writer or a reader on the page.
type endpoint struct {
	ID      string `json:"id"`
	Topic   string `json:"topic"`
	Reader  bool   `json:"reader"`
	Page    bool   `json:"page"` // it is a reader of a page like this one
	Process string `json:"process"`
	Origin  string `json:"origin,omitempty"`
}

// What the page gets of a space.
type (
	uiTopic struct {
		Name       string `json:"name"`
		Type       string `json:"type"`
		Keyed      bool   `json:"keyed"`
		Durability string `json:"durability"`
		Ownership  string `json:"ownership"`
		Writers    int    `json:"writers"`
		Readers    int    `json:"readers"`
		Apart      int    `json:"apart"` // pairs that do not match
		Shown      bool   `json:"shown"` // its samples are
		Fault      string `json:"fault"` // why they are not
	}
	uiProcess struct {
		Name    string `json:"name"`
		Address string `json:"address,omitempty"`
		Writers int    `json:"writers"`
		Readers int    `json:"readers"`
	}
	uiSpace struct {
		Name      string       `json:"name"`
		Topics    []uiTopic    `json:"topics"`
		Processes []*uiProcess `json:"processes"`
		Endpoints []endpoint   `json:"endpoints"`
	}
)

// process is a process of the space, which is added if it is new.
func (s *uiSpace) process(node, incarnation uint64) *uiProcess {
	name := fmt.Sprintf("%d.%x", node, incarnation)
	for _, p := range s.Processes {
		if p.Name == name {
			return p
		}
	}
	s.Processes = append(s.Processes, &uiProcess{Name: name})
	return s.Processes[len(s.Processes)-1]
}

// add adds an endpoint.
func (s *uiSpace) add(e *dds.Endpoint) {
	p := s.process(e.ID.Node, e.ID.Incarnation)
	x := endpoint{ID: e.ID.String(), Topic: e.Topic, Reader: e.Reader, Page: string(e.QoS.UserData) == uiMark, Process: p.Name}
	if e.Origin != nil {
		x.Origin = fmt.Sprintf("%s %x", strings.ReplaceAll(e.Origin.Side, "\n", ", "), e.Origin.GUID)
	}
	s.Endpoints = append(s.Endpoints, x)
	switch {
	case x.Page:
	case e.Reader:
		p.Readers++
	default:
		p.Writers++
	}
}

// count counts the endpoints of a topic, but for those of the page itself.
func (s *uiSpace) count(t *uiTopic, endpoints []dds.Endpoint) {
	for i, w := range endpoints {
		switch {
		case w.Topic != t.Name || s.Endpoints[i].Page:
			continue
		case w.Reader:
			t.Readers++
			continue
		}
		t.Writers++
		for k, r := range endpoints {
			if r.Reader && r.Topic == t.Name && !s.Endpoints[k].Page {
				if match, _ := qos.Match(&w.QoS, &r.QoS); !match {
					t.Apart++
				}
			}
		}
	}
}

// look reads the space, and begins to read topics that are new.
func (b *board) look(ctx context.Context) error {
	space := uiSpace{b.name, []uiTopic{}, []*uiProcess{}, []endpoint{}}
	if g := b.p.group(); g != nil {
		for _, m := range g.View().Members {
			space.process(uint64(m.ID), m.Incarnation).Address = m.Addr
		}
	}
	endpoints := b.p.Endpoints()
	for i := range endpoints {
		space.add(&endpoints[i])
	}
	faults := b.join(ctx)
	for _, t := range b.p.Topics() {
		x := uiTopic{Name: t.Name, Type: t.Type, Keyed: t.Keyed, Durability: fmt.Sprint(t.QoS.Durability), Ownership: fmt.Sprint(t.QoS.Ownership), Shown: b.gauges[t.Name] != nil, Fault: faults[t.Name]}
		space.count(&x, endpoints)
		space.Topics = append(space.Topics, x)
	}
	event, err := json.Marshal(space)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !bytes.Equal(event, b.space) {
		b.space = event
		b.version++
	}
	return nil
}
