package member

import (
	"fmt"

	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
)

// topicSum is a number of topics, and the bytes of their declarations.
type topicSum struct{ topics, bytes int }

// topicBytes is what a declaration takes besides its texts and its data, about.
const topicBytes = 512

func (n *topicSum) add(t *space.TopicInfo) {
	n.topics++
	n.bytes += topicBytes + len(t.Name) + len(t.Type) + len(t.QoS.TopicData)
}

// Every member keeps what clients declare, in its log, too. mostOfClient is for new topics of one
// connection of a client, and mostOfSpace for all topics of a space to which a client adds one.
var (
	mostOfClient = topicSum{256, 4 << 20}
	mostOfSpace  = topicSum{4096, 64 << 20}
)

func (n topicSum) beyond(most topicSum) bool { return n.topics > most.topics || n.bytes > most.bytes }

// declare declares a topic for the client.
func (a *attendance) declare(t *space.TopicInfo) error {
	p := a.r.p
	if d := t.QoS.Durability; d == qos.Persistent && !p.Persistent() {
		return core.NotPersistent(d)
	}
	of := a.declared
	p.Mu.Lock()
	_, known := p.Space.Topic(t.Name)
	all := topicSum{}
	if !known {
		for _, other := range p.Space.Topics() {
			all.add(&other)
		}
	}
	p.Mu.Unlock()
	if !known {
		of.add(t)
		all.add(t)
	}
	switch {
	case of.beyond(mostOfClient):
		return fmt.Errorf("%w: a client declares %d new topics of %d bytes at most", qos.ErrRefused, mostOfClient.topics, mostOfClient.bytes)
	case all.beyond(mostOfSpace):
		return fmt.Errorf("%w: clients declare no new topic in a space that has %d topics or %d bytes of declarations", qos.ErrRefused, mostOfSpace.topics, mostOfSpace.bytes)
	}
	err := p.Declare(a.ctx, *t)
	if err == nil {
		a.declared = of
	}
	return err
}
