package life

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Config describes a process.
type Config struct {
	Self         order.NodeID
	Ask          []string // addresses at which the group may be
	Declarations []views.Declaration
}

// Core decides for one process.
type Core struct {
	cfg     Config
	known   restart.State // what the disk knew at the start
	todo    []Effect
	under   Effect
	noted   bool // the identity is durable
	lacking restart.LogID
	entered *views.View // it is durable
}

// New makes the core of a process.
func New(cfg Config) *Core { return &Core{cfg: cfg} }

// Start returns the first effect. Known is the state on the disk, and logs are the logs of
// persistent subgroups on it.
func (c *Core) Start(known restart.State, logs []restart.LogID) Effect {
	c.known = known
	if !slices.ContainsFunc(c.cfg.Declarations, persistent) {
		c.noted = true
		c.then(Effect{Do: Join, Ask: c.cfg.Ask})
		return c.next()
	}
	c.open(logs)
	c.then(Effect{Do: ServeLogs}, Effect{Do: NoteSelf})
	if known.View != nil {
		c.then(Effect{Do: Restart})
	} else {
		c.join(c.cfg.Ask)
	}
	return c.next()
}

func persistent(d views.Declaration) bool { return d.Mode == views.Persistent }

// Ended says how the effect came out that is under way, and returns the next one.
func (c *Core) Ended(r Result) Effect {
	e := c.under
	switch {
	case r.Outcome == Fatal:
		return Effect{Do: Fail, Err: r.Err}
	case r.Outcome == Damaged && e.Do == OpenLog:
		if !c.known.Elsewhere(e.Log) {
			return Effect{Do: Fail, Err: fmt.Errorf("log of subgroup %q: %w", e.Log.Name, NowhereElse(r.Err))}
		}
		c.first(Effect{Do: NoteLack, Log: e.Log}, Effect{Do: CutDamage, Log: e.Log, Err: r.Err})
	case r.Outcome == Damaged:
		c.first(Effect{Do: SetAside, Log: e.Log, Err: e.Err})
	default:
		c.follow(e, r)
	}
	return c.next()
}

// follow finds out what follows an effect that is done.
func (c *Core) follow(e Effect, r Result) {
	switch e.Do {
	case NoteSelf:
		c.noted = true
	case NoteLack:
		c.lacking = e.Log
	case NoteView:
		c.entered = e.View
	case Restart, Join:
		if r.View != nil {
			c.enter(r.View)
			break
		}
		c.noted = false
		c.then(Effect{Do: NoteSelf, Anew: true})
		c.join(slices.Concat(r.Running, c.cfg.Ask)) // the members that run may end meanwhile
	case FindMember:
		if r.Addr != "" {
			c.catchUp(r.Addr)
		}
	}
}

// join has the process become a member of a group that works, or of one that begins.
func (c *Core) join(ask []string) {
	c.then(Effect{Do: FindMember, Ask: ask}, Effect{Do: Join, Ask: ask})
}

// catchUp has the logs catch up with a member. In which shard the process will be is not known yet.
func (c *Core) catchUp(addr string) {
	var list []Effect
	for _, d := range c.cfg.Declarations {
		if persistent(d) && d.ShardCount() == 1 {
			list = append(list, Effect{Do: CatchUp, Log: restart.LogID{Name: d.Name}, Source: restart.Source{Addr: addr}, Keep: true})
		}
	}
	c.first(list...)
}

func (c *Core) enter(v *views.View) {
	logs, fresh := logsIn(v, c.cfg.Self)
	if !slices.ContainsFunc(c.cfg.Declarations, persistent) {
		c.entered = v // there is nothing to be kept
	} else {
		c.open(logs)
		c.then(Effect{Do: NoteView, View: v, Logs: fresh})
	}
	c.then(Effect{Do: Begin, View: v})
}

// Decision returns what has to be done, in order, before the process shows that it knows which view
// follows its own: nil if the group ends.
func (c *Core) Decision(v *views.View) (list []Effect) {
	if v != nil {
		logs, _ := logsIn(v, c.cfg.Self)
		list = openings(logs)
	}
	return append(list, Effect{Do: NoteDecision, View: v})
}

// logsIn returns the logs of a process's shards in a view, and which of them lack records that
// other logs have.
func logsIn(v *views.View, id order.NodeID) (logs, fresh []restart.LogID) {
	self, ok := v.RankOf(id)
	for _, sg := range v.Subgroups {
		if !ok || sg.Mode != views.Persistent || !sg.Has(self) {
			continue
		}
		log := restart.LogID{Name: sg.Name, Shard: sg.Shard}
		logs = append(logs, log)
		if slices.Contains(sg.Fresh, self) {
			fresh = append(fresh, log)
		}
	}
	return logs, fresh
}

func openings(logs []restart.LogID) (list []Effect) {
	for _, id := range logs {
		list = append(list, Effect{Do: OpenLog, Log: id})
	}
	return list
}

func (c *Core) open(logs []restart.LogID) { c.then(openings(logs)...) }

func (c *Core) then(e ...Effect)  { c.todo = append(c.todo, e...) }
func (c *Core) first(e ...Effect) { c.todo = append(e, c.todo...) }

func (c *Core) next() Effect {
	c.under, c.todo = c.todo[0], c.todo[1:]
	if invariants.Enabled {
		e := c.under
		invariants.Check(c.noted || e.Do != Restart && e.Do != FindMember && e.Do != Join, "LF1", "effect %d under an identity that is not durable", e.Do)
		invariants.Check(e.Do != CutDamage && e.Do != SetAside || c.lacking == e.Log, "LF2", "%v is cut, and it is not noted that it lacks something", e.Log)
		invariants.Check(e.Do != Begin || c.entered == e.View, "LF3", "view %d begins before it is durable", c.viewID())
		invariants.Check(e.Do != CatchUp || e.Keep, "LF4", "%v may lose records before the process is in a view", e.Log)
	}
	return c.under
}

func (c *Core) viewID() order.ViewID {
	if c.under.View == nil {
		return 0
	}
	return c.under.View.ID
}
