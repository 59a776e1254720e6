package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/ripc"
)

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

// answer appends the answer to a request. Objects that the client may not know of are left out; it
// is an error if there are no others.
func (g *guide) answer(ctx context.Context, b []byte, m *ripc.Message) ([]byte, error) {
	r, err := client.Parse(m.Data)
	switch {
	case err == nil && m.IsRequest() && r.Ask == client.Enable:
		return g.enable(ctx, b, m, &r)
	case err == nil && m.IsRequest() && r.Ask == client.Group:
		return g.group(b, string(r.Rest))
	case err != nil || !m.IsRequest() || r.Ask != client.Describe:
		return b, client.ErrMalformed
	}
	all, err := g.describe(m, &r)
	if err != nil {
		return b, err
	}
	data, err := invoke.Marshal(all)
	if err != nil {
		return b, fmt.Errorf("replicated: describing objects: %w", err)
	}
	return (&client.Answer{Said: client.Done, Text: data}).AppendTo(b), nil
}

// describe returns the objects that a client may know of, and why there is none.
func (g *guide) describe(m *ripc.Message, r *client.Request) (all []replicated.ObjectInfo, err error) {
	all = []replicated.ObjectInfo{}
	var denied, halted error
	for _, d := range g.desks {
		select {
		case <-d.object.group.Done():
			halted = errHalted
			continue
		default:
		}
		if err := d.allow(m, r); err == nil {
			all = append(all, d.object.info())
		} else if denied == nil {
			denied = err
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case denied != nil:
		return nil, denied
	}
	return all, halted
}

// group appends the answer which group with a name this process is in, or nothing if there is none.
func (g *guide) group(b []byte, cluster string) ([]byte, error) {
	a := client.Answer{Said: client.Done}
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
	if g.service, err = e.Register(ctx, client.Catalog); err == nil {
		g.service.CopyMessages()
		done.Go(func() { g.receive(serving) })
	}
	return err
}

// info describes the object.
func (o *object) info() replicated.ObjectInfo {
	i := replicated.ObjectInfo{
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
		i.Operations = append(i.Operations, replicated.OperationInfo{
			Name: name, Query: b.query, Enabled: b.query || enabled, Arguments: b.codecs[0], Reply: b.codecs[1], Ready: slices.Contains(ready, name),
		})
	}
	return i
}

// codecName returns the name of a codec, or nothing if it has none.
func codecName(c any) string {
	if n, ok := c.(replicated.Named); ok {
		return n.Name()
	}
	return ""
}
