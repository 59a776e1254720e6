package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/internal/wait"
)

// Config declares a member of a space.
type Config struct {
	// Group is the group that the process becomes a member of. The subgroup of the space is added to
	// its subgroups.
	Group squall.Config
	// Subgroup is the space: its name, mode, limits and log. Its functions, AsyncQueueBytes, Members,
	// Senders, Shards and Layout must not be set: all members of the group have the space. RingBytes
	// of 0 is 2 MiB here, and Window of 0 is 16 384: all topics share the rings, and with more space
	// processes that share a processor change less often. The log of a persistent space has
	// squall.DefaultSnapshots, unless Log.Snapshots has another policy.
	Subgroup squall.SubgroupConfig
	// Unordered is a subgroup for samples that need no order, if its name is set; all members set it
	// alike. Its Mode is Unordered, and what Subgroup must not have it must not have, either. Writers
	// send there that are BEST_EFFORT, VOLATILE and SHARED, offer no coherent access, no order by
	// source, no deadline and no manual liveliness: see dds.Info.Position.
	Unordered squall.SubgroupConfig
	// Events is called for what happens to the writers and readers of this process, in order. It must
	// not block.
	Events func(dds.Event)
}

// Of the subgroups of a space, unless they are configured.
const (
	ringBytes = 2 << 20
	window    = 16 << 10
)

// Member is a member of a group with a space: a dds.Participant, and what only a member has.
type Member struct {
	*dds.Participant
	b *backend
}

// backend is the core.Backend of a member.
type backend struct {
	*core.Participant
	cfg             Config // constant, and all of these once Open has returned
	group           *squall.Group
	sub             *squall.Subgroup
	loose           *squall.Subgroup // for samples that need no order; nil: there is none
	ring, looseRing ring             // of these
	keeper          *keeper          // of a space with the mode Ordered; otherwise nil

	// Under the lock.
	set     uint64                // number of the last coherent set
	calls   map[uint64]chan error // what waits for the result of a record of this process, by the number of the call
	called  uint64                // number of the last call
	version squall.Version        // of the last record that was applied
	changes uint64                // records that were no samples
	clients map[uint32]*attended  // endpoints that this process has for clients, by their numbers

	views    wait.Bell
	rostered squall.ViewID // whose roster this process sent last
	ended    sync.WaitGroup
}

// ring is where samples are claimed that are written in place.
type ring struct {
	rooms extension.Rooms
	in    core.Committer
}

func ringOf(sub *squall.Subgroup) ring {
	r := sub.Extension(extension.Key{})
	return ring{r, r}
}

// newBackend returns a member that is not open, and what is wrong with its configuration.
func newBackend(cfg Config) (*backend, error) {
	p := &backend{Participant: core.New(cfg.Subgroup.Name), cfg: cfg, calls: map[uint64]chan error{}, views: wait.NewBell()}
	p.Backend, p.Looks, p.Taken = p, true, p.taken
	var err error
	sg := &p.cfg.Subgroup
	if sg.Mode == squall.Unordered {
		err = errors.New("a space has an order: Mode must not be Unordered")
	}
	err = errors.Join(err, whole(sg))
	sg.DeliverSome, sg.Snapshot, sg.Restore = p.deliver, p.snapshot, p.restore
	sg.RingBytes, sg.Window = cmp.Or(sg.RingBytes, ringBytes), cmp.Or(sg.Window, window)
	if sg.Mode == squall.Persistent && sg.Log.Snapshots == (squall.SnapshotPolicy{}) {
		sg.Log.Snapshots = squall.DefaultSnapshots()
	}
	if sg.Mode == squall.Ordered {
		p.keeper = newKeeper(p, sg)
	}
	if loose := &p.cfg.Unordered; loose.Name != "" {
		if loose.Mode != squall.Unordered && loose.Mode != squall.Ordered {
			err = errors.Join(err, errors.New("the mode of the subgroup without an order is Unordered"))
		}
		err = errors.Join(err, whole(loose))
		loose.Mode, loose.DeliverBatch = squall.Unordered, p.pass
		loose.RingBytes, loose.Window = cmp.Or(loose.RingBytes, ringBytes), cmp.Or(loose.Window, window)
	}
	if err != nil {
		err = fmt.Errorf("dds: space %q: %w", p.Name, err)
	}
	return p, err
}

// whole returns what a subgroup of a participant must not have.
func whole(sg *squall.SubgroupConfig) (err error) {
	if sg.Deliver != nil || sg.DeliverBatch != nil || sg.DeliverSome != nil || sg.AsyncQueueBytes != 0 || sg.Snapshot != nil || sg.Restore != nil {
		err = errors.New("the functions of the subgroup belong to the participant, and there is no queue in front of them")
	}
	if len(sg.Senders) > 0 || sg.Shards > 1 {
		err = errors.Join(err, errors.New("all members send: Senders must be empty and Shards not more than 1"))
	}
	if len(sg.Members) > 0 || sg.MaxMembers > 0 || sg.Layout != nil || sg.LayoutName != "" {
		err = errors.Join(err, errors.New("all members of the group have the space: Members, MaxMembers and Layout must not be set"))
	}
	if sg.Log.Retain != (squall.Retention{}) { // a restart would begin without the topics and samples that were dropped
		err = errors.Join(err, errors.New("Log.Retain must not be set: the log of a space has everything after its last snapshot (Log.Snapshots)"))
	}
	return err
}

// Open makes this process a member of a group with the space, and returns when this process has the
// state.
func Open(ctx context.Context, cfg Config) (*Member, error) {
	p, err := newBackend(cfg)
	if err != nil {
		return nil, err
	}
	m := &Member{core.Public(p.Participant, cfg.Events).(*dds.Participant), p}
	if p.group, err = squall.Open(ctx, p.groupConfig()); err != nil {
		return nil, err
	}
	p.Over, p.Cause = p.group.Done(), func() error { return cmp.Or(p.group.Err(), dds.ErrNotOpen) }
	if err := p.begin(ctx); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	return m, nil
}

// groupConfig is the configuration of the group with the subgroups of the space.
func (p *backend) groupConfig() squall.Config {
	cfg := p.cfg.Group
	cfg.Subgroups = append(append([]squall.SubgroupConfig(nil), cfg.Subgroups...), p.cfg.Subgroup)
	if p.cfg.Unordered.Name != "" {
		cfg.Subgroups = append(cfg.Subgroups, p.cfg.Unordered)
	}
	onView := cfg.OnView
	cfg.OnView = func(v *squall.View) {
		if onView != nil {
			onView(v)
		}
		p.views.Ring()
	}
	return cfg
}

// begin waits for the state.
func (p *backend) begin(ctx context.Context) (err error) {
	sub, err := p.group.Subgroup(p.Name)
	if err != nil {
		return err
	}
	p.Mu.Lock()
	p.sub, p.ring = sub, ringOf(sub)
	p.Mu.Unlock()
	if p.cfg.Unordered.Name != "" {
		if p.loose, err = p.group.Subgroup(p.cfg.Unordered.Name); err != nil {
			return err
		}
		p.looseRing = ringOf(p.loose)
	}
	select {
	case <-p.sub.Restored():
	case <-p.group.Done():
		return p.group.Err()
	case <-ctx.Done():
		return fmt.Errorf("dds: waiting for the state of space %q: %w", p.Name, context.Cause(ctx))
	}
	p.Mu.Lock()
	for _, m := range p.group.View().Members {
		if m.ID == p.group.ID() {
			p.Self = space.Process{Node: uint64(m.ID), Incarnation: m.Incarnation}
		}
	}
	p.Mu.Unlock()
	p.ended.Go(p.housekeeper)
	return nil
}

// Group returns the group.
func (m *Member) Group() *squall.Group { return m.b.group }

// Subgroup returns the subgroup that is the space.
func (m *Member) Subgroup() *squall.Subgroup { return m.b.sub }

// Close ends the part of this process: its readers take nothing any more, its writers end at one
// position everywhere, and the process leaves the group.
func (m *Member) Close(ctx context.Context) error { return m.b.Close(ctx) }

// Close implements core.Backend, as the other methods with capitals do.
func (p *backend) Close(ctx context.Context) error {
	p.Mu.Lock()
	p.End()
	p.ended.Wait()
	return p.group.Close(ctx)
}
