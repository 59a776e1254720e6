package member

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/ripc"
)

// servers is the state of the object by which the members of a group with shards know where each of
// them serves clients.
type servers struct {
	Serving map[squall.NodeID]servingAt
}

// servingAt is where a member serves clients.
type servingAt struct {
	Node        squall.NodeID
	Incarnation uint64 // of its process
	Addr        string // empty: it serves no more
	At          squall.Version
}

const (
	// serversName is the name of the object; no other one should have it.
	serversName = "squall servers"
	// maxServers bounds the members that are known, most of which may have left.
	maxServers = 1 << 10
)

var setServing = replicated.NewCommand[servingAt, struct{}]("serving")

// withServers adds the object for servers if an object has shards, and returns that, too.
func withServers(objects []AnyObject) ([]AnyObject, *Object[*servers]) {
	if !slices.ContainsFunc(objects, func(x AnyObject) bool { return x.core().sharded() }) {
		return objects, nil
	}
	s := New(squall.SubgroupConfig{Name: serversName, RingBytes: 16 << 10, Window: 16},
		func() *servers { return &servers{map[squall.NodeID]servingAt{}} }, Handle(setServing, (*servers).set))
	return append(slices.Clone(objects), s), s
}

// set notes where a member serves.
func (s *servers) set(c *Context, at servingAt) (none struct{}, err error) {
	at.At = c.Version
	if at.Addr != "" {
		s.Serving[at.Node] = at
	} else if s.Serving[at.Node].Incarnation == at.Incarnation {
		delete(s.Serving, at.Node)
	}
	if len(s.Serving) > maxServers {
		oldest := at
		for _, other := range s.Serving {
			if other.At.Before(oldest.At) {
				oldest = other
			}
		}
		delete(s.Serving, oldest.Node)
	}
	return none, nil
}

// serveShards tells the other members where this one serves, if an object has shards, and makes the
// client by which it calls the shards that it is not in.
func (s *Server) serveShards(ctx context.Context, cfg ripc.Config) error {
	for _, o := range s.objects {
		if !o.sharded() {
			continue
		}
		i := slices.IndexFunc(s.others, func(c otherShards) bool { return c.cluster == o.cluster })
		if i < 0 {
			c, err := replicated.Dial(ctx, replicated.ClientConfig{
				Cluster: o.cluster, Group: o.group.View().Group, Addresses: []string{s.endpoint.Addr()},
				Endpoint: ripc.Config{TLS: cfg.TLS, Secret: cfg.Secret, Transport: cfg.Transport, RingBytes: cfg.RingBytes},
			})
			if err != nil {
				return err
			}
			if !o.servers.object.others.CompareAndSwap(nil, c) {
				_ = c.Close()
				return fmt.Errorf("object %q: another Server of this process serves objects in shards of its group: give all of them to one Server", o.sg.Name)
			}
			i, s.others = len(s.others), append(s.others, otherShards{o.cluster, c})
			if err := s.tell(ctx, o, s.endpoint.Addr()); err != nil {
				return err
			}
		}
		o.others.Store(s.others[i].Client)
	}
	return nil
}

// otherShards is the client by which a member calls the shards of a group that it is not in.
type otherShards struct {
	cluster string
	*replicated.Client
}

// tell has all members know where this one serves clients.
func (s *Server) tell(ctx context.Context, o *object, addr string) error {
	self := o.group.ID()
	peer, ok := find(peers(o.group.View(), []squall.NodeID{self}), uint64(self))
	if !ok {
		return fmt.Errorf("replicated: object %q: this process is no member", o.sg.Name)
	}
	_, err := setServing.Call(ctx, o.servers, servingAt{Node: self, Incarnation: peer.Incarnation, Addr: addr})
	return err
}

// withdrawTime is how long a server that closes tries to tell the other members.
const withdrawTime = time.Second

// endShards takes back what serveShards did, as far as the group goes on.
func (s *Server) endShards() {
	for _, c := range s.others {
		for _, o := range s.objects {
			if o.others.CompareAndSwap(c.Client, nil) && o.cluster == c.cluster {
				ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
				_ = s.tell(ctx, o, "") // if that fails, clients find no server there, and go on to another member
				cancel()
			}
			if o.servers != nil {
				o.servers.object.others.CompareAndSwap(c.Client, nil)
			}
		}
		_ = c.Close()
	}
}

// located looks it up in the view in force.
func (o *object) located() client.Places {
	l := client.Places{Shards: max(1, o.sg.Shards)}
	if !o.sharded() {
		return l
	}
	v := o.group.View()
	l.Addresses = make([][]string, o.sg.Shards)
	o.servers.View(func(s *servers) {
		for shard := range l.Addresses {
			for _, p := range peers(v, shardMembers(v, o.sg.Name, shard)) {
				if at, ok := s.Serving[squall.NodeID(p.Node)]; ok && at.Incarnation == p.Incarnation {
					l.Addresses[shard] = append(l.Addresses[shard], at.Addr)
				}
			}
		}
	})
	return l
}

// locate answers where the shards of the object are.
func (d *desk) locate(m *ripc.Message) error {
	if err := d.object.ready(); err != nil {
		return err
	}
	data, err := invoke.Marshal(d.object.located())
	if err != nil {
		return err
	}
	d.answers.reply(nil, m, (&client.Answer{Said: client.Done, Text: data}).AppendTo(nil))
	*m = ripc.Message{}
	return nil
}

// here returns an error if this member does not serve what a request is for.
func (d *desk) here() error {
	o := d.object
	if d.shard == 0 {
		return o.unsharded()
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	if !o.hasShard(d.shard) {
		return o.elsewhere()
	}
	return nil
}

// useForward is what members prove to each other when they hand over what handlers sent.
const useForward = "squall objects forward"

// vouched reports whether a request to forward a command comes, as it is, from a member of the
// group, and is for this service.
func (d *desk) vouched(r *client.Request, vouches func(use string, text, proof []byte) bool) bool {
	proof, text := r.Proof(string(d.id()))
	return vouches(useForward, text, proof)
}

// executed returns the answer to a request to forward a command that this copy has executed. The
// command is not ordered again: that may take longer than a member waits that forwards it.
func (d *desk) executed(r *client.Request) (said []byte, done bool) {
	if r.Ask != client.Forward {
		return nil, false
	}
	o := d.object
	source, _, at := r.Forwarded()
	o.mu.RLock()
	defer o.mu.RUnlock()
	if !o.hasShard(d.shard) || !o.machine.HasExecuted(source, at) {
		return nil, false
	}
	return appendOutcome(nil, &invoke.Outcome{Status: invoke.Again}), true
}

// id returns the id of the service.
func (d *desk) id() ripc.ID {
	if d.shard == 0 {
		return ripc.ID(client.Service(d.object.cluster, d.group, d.object.sg.Name))
	}
	return ripc.ID(client.Service(d.object.cluster, d.group, client.ShardName(d.object.sg.Name, d.shard-1)))
}
