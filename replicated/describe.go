package replicated

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// ObjectInfo describes an object, as a member that serves it sees it.
type ObjectInfo struct {
	Cluster    string          `cbor:"1,keyasint"` // the name of the group
	Name       string          `cbor:"2,keyasint"`
	Member     squall.NodeID   `cbor:"3,keyasint"` // that describes it
	Members    []squall.NodeID `cbor:"4,keyasint"` // that have a copy, in order of seniority
	Version    squall.Version  `cbor:"5,keyasint"` // the position of the last record that this member applied
	Executed   uint64          `cbor:"6,keyasint"` // commands up to there
	Sessions   int             `cbor:"7,keyasint"` // of clients
	Persistent bool            `cbor:"8,keyasint"`
	Operations []OperationInfo `cbor:"9,keyasint"` // by name
	// Shards has the members of each shard of an object in shards, and Shard is 1 + the number of Member's shard. Members is empty then.
	Shards [][]squall.NodeID `cbor:"10,keyasint,omitempty"`
	Shard  int               `cbor:"11,keyasint,omitempty"`
}

// OperationInfo describes an operation of an object.
type OperationInfo struct {
	Name    string `cbor:"1,keyasint"`
	Query   bool   `cbor:"2,keyasint"` // a query; otherwise a command
	Enabled bool   `cbor:"3,keyasint"` // false for a command that some member cannot execute yet, or that waits to be enabled
	// Arguments and Reply are the names of the codecs (Named), such as "cbor", "raw" and "protobuf"; empty for a codec that
	// has no name.
	Arguments string `cbor:"4,keyasint"`
	Reply     string `cbor:"5,keyasint"`
	// Ready reports that a command is not enabled although all members have it: it will be after a while (Object.EnableAfter), or by EnableOperations.
	Ready bool `cbor:"6,keyasint,omitempty"`
}

// Named is implemented by codecs that have a name, by which programs that do not know the types of an operation recognise its
// encoding.
type Named interface {
	// Name returns the name of the encoding.
	Name() string
}

// codecName returns the name of a codec, or nothing if it has none.
func codecName(c any) string {
	if n, ok := c.(Named); ok {
		return n.Name()
	}
	return ""
}

// catalog is the id of the service that describes the objects of a server. It is the same everywhere, so that a client needs
// to know nothing but an address.
const catalog ripc.ID = "squall objects"

// Objects describes the objects that a member serves and that the client may know of: those of the client's Cluster, or of all groups if
// that is empty.
func (c *Client) Objects(ctx context.Context) (all []ObjectInfo, err error) {
	err = c.ask(ctx, &RemoteObject{id: catalog, route: &c.any}, func(answer []byte) error {
		_, data, err := parseAnswer("objects", answer)
		if err == nil {
			err = decode(CBOR[[]ObjectInfo](), data, &all, "description", "objects")
		}
		return err
	}, []byte{byte(askDescribe)})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o ObjectInfo) bool { return c.cfg.Cluster != "" && o.Cluster != c.cfg.Cluster }), nil
}

// guide describes the objects of a server to clients.
type guide struct {
	service *ripc.Service
	answers *answers
	desks   []*desk
}

// receive answers requests until ctx or the service ends.
func (g *guide) receive(ctx context.Context) {
	var answer []byte
	for {
		m, err := g.service.Receive(ctx)
		if err != nil {
			return
		}
		answer, err = g.answer(ctx, answer[:0], &m)
		if err != nil {
			answer = appendError(answer[:0], err)
		}
		g.answers.reply(nil, &m, answer)
	}
}

// errHalted says that a member's groups have halted, so that another member is to be asked.
var errHalted = errors.New("replicated: this member has halted")

// answer appends the answer to a request. Objects that the client may not know of are left out; it is an error if there are no others.
func (g *guide) answer(ctx context.Context, b []byte, m *ripc.Message) ([]byte, error) {
	r, err := relay.Parse(m.Data)
	switch {
	case err == nil && m.IsRequest() && r.Ask == relay.Enable:
		return g.enable(ctx, b, m, &r)
	case err == nil && m.IsRequest() && r.Ask == askGroup:
		return g.group(b, string(r.Rest))
	case err != nil || !m.IsRequest() || r.Ask != askDescribe:
		return b, errMalformed
	}
	all := []ObjectInfo{}
	var denied, halted error
	for _, d := range g.desks {
		select {
		case <-d.object.group.Done():
			halted = errHalted
			continue
		default:
		}
		if err := d.allow(m, &r); err != nil {
			if denied == nil {
				denied = err
			}
			continue
		}
		all = append(all, d.object.info())
	}
	if len(all) == 0 && (denied != nil || halted != nil) {
		if denied != nil {
			return b, denied
		}
		return b, halted
	}
	data, err := cborOut.Marshal(all)
	if err != nil {
		return b, fmt.Errorf("replicated: describing objects: %w", err)
	}
	return (&relay.Answer{Said: saidDone, Text: data}).AppendTo(b), nil
}

// group appends the answer which group with a name this process is in, or nothing if there is none.
func (g *guide) group(b []byte, cluster string) ([]byte, error) {
	a := relay.Answer{Said: saidDone}
	for _, d := range g.desks {
		if d.object.cluster != cluster {
			continue
		}
		select {
		case <-d.object.group.Done():
			return b, errHalted
		default:
		}
		a.Text = []byte(d.group)
		break
	}
	return a.AppendTo(b), nil
}

// serve registers the service.
func (g *guide) serve(ctx, serving context.Context, e *ripc.Endpoint, done *sync.WaitGroup) (err error) {
	if g.service, err = e.Register(ctx, catalog); err == nil {
		g.service.CopyMessages()
		done.Go(func() { g.receive(serving) })
	}
	return err
}

// info describes the object.
func (o *object) info() ObjectInfo {
	i := ObjectInfo{
		Cluster: o.cluster, Name: o.sg.Name, Member: squall.NodeID(o.self.Load()), Members: o.sub.Members(0),
		Persistent: o.sg.Mode == squall.Persistent,
	}
	if o.sharded() {
		i.Members, i.Shard = nil, o.stay.Load().number()
		for shard := range o.sg.Shards {
			i.Shards = append(i.Shards, o.sub.Members(shard))
		}
	}
	var members []machine.Peer
	of := o.group.View()
	if shard := shardIn(of, o.sg.Name, o.group.ID()); shard > 0 {
		members = peers(of, shardMembers(of, o.sg.Name, shard-1))
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	ready := o.machine.Ready(members)
	view, seq := o.machine.At()
	i.Version = squall.Version{View: squall.ViewID(view), Seq: squall.Seq(seq)}
	i.Executed, i.Sessions = o.machine.Executed(), o.machine.Sessions()
	for _, name := range slices.Sorted(maps.Keys(o.bound)) {
		b := o.bound[name]
		_, enabled := o.numbers[name]
		i.Operations = append(i.Operations, OperationInfo{
			Name: name, Query: b.query, Enabled: b.query || enabled, Arguments: b.codecs[0], Reply: b.codecs[1], Ready: slices.Contains(ready, name),
		})
	}
	return i
}
