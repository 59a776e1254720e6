package bench

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/squall-go/squall"
)

// Fabrics are the fabrics that a flag can name.
var Fabrics = map[string]squall.Fabric{"auto": squall.FabricAuto, "shm": squall.FabricSHM, "tcp": squall.FabricTCP}

// Cluster is the name of all groups that are measured.
const Cluster = "bench"

// joinWithin is how long members wait for each other, failAfter how long a member may be silent on
// a machine with far fewer cores than members.
const (
	joinWithin = 30 * time.Second
	failAfter  = 10 * time.Second
)

// Group is one member of a group that is measured: node 1 founds it, and the others join it.
type Group struct {
	*squall.Group // once it is connected
	Config        squall.Config
	// Opener opens the group: squall.Open, unless a workload sets another function.
	Opener func(context.Context, squall.Config) (*squall.Group, error)
	// Survives says that the run goes on when a member fails.
	Survives  bool
	subgroups map[string]*squall.Subgroup

	opened  chan struct{} // closed when the founder has opened the group, or could not
	openErr error         // W: before opened is closed

	Failing
}

// NewGroup returns a member that is not open yet. The caller adds subgroups to its configuration.
func NewGroup(node, nodes int, fabric string) *Group {
	g := &Group{opened: make(chan struct{}), Opener: squall.Open, Failing: NewFailing(), subgroups: map[string]*squall.Subgroup{}}
	g.Config = squall.Config{
		Cluster: Cluster, ID: squall.NodeID(node), Listen: "127.0.0.1:0", InitialMembers: nodes, Fabric: Fabrics[fabric], FailAfter: failAfter,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // what matters comes back as an error
		Events: g.happened,
	}
	return g
}

// Listen begins to open the group at its founder, whose address the others have to know. They have
// none before they join.
func (g *Group) Listen(ctx context.Context) (string, error) {
	if g.Config.ID > 1 {
		return "", nil
	}
	addr := make(chan string, 1)
	g.Config.Events = func(e squall.Event) {
		g.happened(e)
		if l, ok := e.(squall.Listening); ok {
			addr <- l.Addr
		}
	}
	go func() {
		g.openErr = g.open(ctx)
		close(g.opened)
	}()
	select {
	case a := <-addr:
		return a, nil
	case <-g.opened:
	}
	if g.openErr != nil {
		return "", g.openErr
	}
	return <-addr, nil // a group of one opens at once
}

func (g *Group) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	if g.Group, err = g.Opener(ctx, g.Config); err != nil {
		return err
	}
	for _, sg := range g.Config.Subgroups {
		if g.subgroups[sg.Name], err = g.Group.Subgroup(sg.Name); err != nil {
			return err
		}
	}
	return nil
}

// Subgroup returns a subgroup of the configuration.
func (g *Group) Subgroup(name string) *squall.Subgroup { return g.subgroups[name] }

// Connect waits until all members are in the group.
func (g *Group) Connect(ctx context.Context, addrs []string) error {
	if g.Config.ID > 1 {
		g.Config.Join = addrs[:1]
		if err := g.open(ctx); err != nil {
			return err
		}
	} else if <-g.opened; g.openErr != nil {
		return g.openErr
	}
	go func() {
		<-g.Done()
		g.Fail(g.Err())
	}()
	return nil
}

// happened ends the run when a member fails: the others go on, but what they do then is not what
// was to be measured.
func (g *Group) happened(e squall.Event) {
	if down, ok := e.(squall.MemberDown); ok && !g.Survives {
		g.Fail(errors.New(down.String()))
	}
}

// Close leaves the group.
func (g *Group) Close() error {
	if g.Group == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWithin/2)
	defer cancel()
	return g.Group.Close(ctx)
}
