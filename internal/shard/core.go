package shard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

var (
	// ErrStateLost says that no member is left that has the state.
	ErrStateLost = errors.New("no member is left that has the state of the subgroup")

	errSourceGone = errors.New("it is no member any more")
)

// Config describes a subgroup of this process.
type Config struct {
	Self order.NodeID
	// Logs reports whether the subgroup is persistent. HandsOver reports whether a member that
	// enters a shard needs its state or its log from others. Recovers reports whether the
	// application takes over the log of the shard that the process enters.
	Logs, HandsOver, Recovers bool
	State, Log                wait.Backoff // between rounds in which sources are asked for a state, or a log
}

// Core decides for one subgroup of a process, over all views.
type Core struct {
	cfg     Config
	view    *views.View // the last installed view
	own     *stay       // the last stay; nil: none
	stays   []*stay     // the oldest first; stays with no work left are forgotten
	entered Stay        // how many there were
	number  Activity
	under   *activity // the activity that is under way; nil: none
	effects []Effect
	halted  bool

	performing bool
}

// phase is how a stay treats what its shard delivers.
type phase uint8

const (
	waiting phase = iota // it goes to the backlog
	live                 // the application gets it
	over                 // the application does not get it
)

// stay is one of the process's stays.
type stay struct {
	id          Stay
	shard       int
	view        *views.View  // the first one
	index       int          // of the subgroup in it
	last        order.ViewID // the last view in which the process is a member of the shard
	began       order.ViewID // the last view of which Begins told
	phase       phase
	fresh       bool // it gets the state from others
	ready       bool // the application has everything of earlier views
	superseded  bool
	next        Verb // the activity that comes next
	done        bool // no activity comes any more
	boundary    order.Version
	state, log  Sources
	arrived     bool         // the log, or the application, has everything up to now
	source      views.Member // of the last FetchState or FillLog
	told        []error      // why sources refused
	orphan      bool         // no member is left that was in the shard before the stay
	promised    []mark       // boundaries in the backlog at which the state is to be handed over
	afterResume Verb         // the activity that follows a Rest
}

// mark is the boundary of a view in a subgroup.
type mark struct {
	view  order.ViewID
	index int
}

// activity is what is under way.
type activity struct {
	stay      *stay
	number    Activity
	verb      Verb
	cancelled bool // no result of it is used, but for Fatal (SH4)
	gone      bool // cancelled because its source is no member any more
}

// New makes the core of a subgroup.
func New(cfg Config) *Core { return &Core{cfg: cfg} }

// Perform performs each effect in order, including the effects that follow from it. A call within
// another one does nothing: the outer call performs the rest.
func (c *Core) Perform(do func(Effect)) {
	if c.performing {
		return
	}
	c.performing = true
	for e, ok := c.take(); ok; e, ok = c.take() {
		do(e)
	}
	c.performing = false
}

// take takes the next effect; false: there is none.
func (c *Core) take() (e Effect, ok bool) {
	if len(c.effects) == 0 {
		return e, false
	}
	e, c.effects = c.effects[0], c.effects[1:]
	return e, true
}

func (c *Core) emit(e Effect) {
	if !c.halted {
		c.effects = append(c.effects, e)
	}
}

// Enter is called for the shard of the subgroup that the process is a member of in a view, at an
// index of it, before the view is installed. It returns the stay, and whether that is a new one.
//
// A member that has the state continues. Of the others, a fresh member gets the state from other
// members. One that is not fresh enters a shard that begins, or one whose log it holds: the
// application takes over what is in the log, or begins with nothing. Only an application that was
// in no shard of the subgroup before has nothing to replace.
func (c *Core) Enter(v *views.View, index int) (id Stay, begins bool) {
	sg := v.Subgroups[index]
	self, _ := v.RankOf(c.cfg.Self)
	fresh, before := slices.Contains(sg.Fresh, self), c.own
	if before != nil && !fresh && !sg.Lost && c.continues(before, v, sg) {
		before.last = v.ID
		return before.id, false
	}
	c.entered++
	s := &stay{
		id: c.entered, shard: sg.Shard, view: v, index: index, last: v.ID, phase: live, done: true, fresh: fresh,
		state: Sources{Pauses: c.cfg.State}, log: Sources{Pauses: c.cfg.Log},
	}
	c.own, c.stays = s, append(c.stays, s)
	if c.cfg.HandsOver && (fresh || before != nil || c.cfg.Recovers) {
		s.phase, s.done, s.next = waiting, false, c.first(s)
		c.emit(Effect{Do: Hold, Stay: s.id})
		if fresh && c.cfg.Logs {
			c.emit(Effect{Do: LackLog, Stay: s.id, View: v.ID})
		}
		if before != nil {
			c.supersede(before)
		}
	}
	return s.id, true
}

// first is the first activity of a stay.
func (c *Core) first(s *stay) Verb {
	switch {
	case s.fresh && mutant.Enabled && mutant.On(mutant.EarlyBacklog):
		return HandOver
	case s.fresh:
		return FetchState
	case !c.cfg.Logs:
		return RestoreEmpty
	}
	return SyncLog
}

// continues reports whether a process that is not fresh in a shard has its state already: it was in
// the shard in the view before, or in the last view in which the shard had members. In the latter
// case what waited for disks was not delivered, so an application with a log takes over the log
// instead.
func (c *Core) continues(s *stay, v *views.View, sg views.Subgroup) bool {
	return s.shard == sg.Shard && (s.last == v.ID-1 || !c.cfg.Logs)
}

// Fresh reports whether the last stay gets its state from others.
func (c *Core) Fresh() bool { return c.own != nil && c.own.fresh }

// Installed takes a view, after Enter if that was called for it: only its members are sources from
// here on.
func (c *Core) Installed(v *views.View) {
	c.view = v
	s := c.own
	if s == nil {
		return
	}
	if s.last < v.ID && s.phase == waiting && s.fresh {
		c.supersede(s)
	}
	if u := c.under; u != nil && !u.cancelled && !u.gone && c.sourceGone(u) {
		u.gone = true
		c.emit(Effect{Do: Cancel, Stay: u.stay.id, Activity: u.number})
	}
	c.advance()
}

// sourceGone reports whether an activity asks a process that is no member any more, and another
// member is to be asked in its place. The process may go on answering and never have what it is
// asked for. If no other member has the log whole, that process is the best source there is.
func (c *Core) sourceGone(u *activity) bool {
	switch {
	case slices.Contains(c.view.Members, u.stay.source):
		return false
	case u.verb == FillLog:
		whole, _ := logHolders(c.view, u.stay.view.Subgroups[u.stay.index].Name, u.stay.shard, c.cfg.Self)
		return len(whole) > 0
	}
	return u.verb == FetchState
}

// supersede ends a stay's part in the application's life: the state of another one takes its place,
// or the process has left the shard.
//
// What waits in the backlog is forgotten, unless it belongs into a log that is complete: then it is
// recorded first, and what the shard still delivers comes after it.
func (c *Core) supersede(s *stay) {
	if s.superseded = true; s.phase != waiting {
		s.phase = over
		c.emit(Effect{Do: Over, Stay: s.id})
		return
	}
	if c.cfg.Logs && !s.fresh {
		c.emit(Effect{Do: Silence, Stay: s.id})
	} else {
		for _, m := range s.promised {
			c.emit(Effect{Do: WithholdState, Stay: s.id, View: m.view, Index: m.index})
		}
		s.phase, s.promised = over, nil
		c.emit(Effect{Do: Drop, Stay: s.id})
		c.emit(Effect{Do: Over, Stay: s.id})
	}
	if u := c.under; u != nil && u.stay == s && u.verb != HandOver && !u.cancelled {
		u.cancelled = true
		c.emit(Effect{Do: Cancel, Stay: s.id, Activity: u.number})
	}
}

// Begins is called once for each view in which a stay's process is a member of the shard, when
// everything of earlier views is delivered, and nothing of this one. Wanted reports whether members
// that are fresh in the view wait for the state at this boundary.
func (c *Core) Begins(id Stay, v order.ViewID, index int, wanted bool) {
	s := c.find(id)
	if s.began == 0 && s.phase == waiting {
		if c.cfg.Logs {
			c.emit(Effect{Do: HoldLog, Stay: id, View: s.view.ID})
		}
		c.emit(Effect{Do: AwaitApp, Stay: id})
	}
	s.began = v
	if wanted {
		c.offer(s, v, index)
	}
	c.forget()
}

// offer has the state handed over where a view begins, if the application, or the log, got all that
// the shard delivered before (SH5).
func (c *Core) offer(s *stay, v order.ViewID, index int) {
	has := s.phase != over || c.cfg.Logs && (!s.fresh || s.arrived)
	if mutant.Enabled && mutant.On(mutant.NoOffer) {
		return
	}
	if !has {
		c.emit(Effect{Do: WithholdState, Stay: s.id, View: v, Index: index})
		return
	}
	if s.phase == waiting {
		s.promised = append(s.promised, mark{v, index})
	}
	c.emit(Effect{Do: OfferState, Stay: s.id, View: v, Index: index})
}

// forget forgets the stays of which nothing is asked any more.
func (c *Core) forget() {
	c.stays = slices.DeleteFunc(c.stays, func(s *stay) bool { return s != c.own && s.done && s.began == s.last })
}

func (c *Core) find(id Stay) *stay {
	return c.stays[slices.IndexFunc(c.stays, func(s *stay) bool { return s.id == id })]
}

// Knows reports whether effects may still be for a stay.
func (c *Core) Knows(id Stay) bool {
	return slices.ContainsFunc(c.stays, func(s *stay) bool { return s.id == id })
}

// Ready says that the application has got everything of the views before a stay's first one.
func (c *Core) Ready(id Stay) {
	if i := slices.IndexFunc(c.stays, func(s *stay) bool { return s.id == id }); i >= 0 {
		c.stays[i].ready = true
	}
	c.advance()
}

// Halted says that the process does nothing any more. No effects come from here on.
func (c *Core) Halted() { c.halted, c.effects = true, nil }

// advance begins the next activity, of the oldest stay that is not done.
func (c *Core) advance() {
	for _, s := range c.stays {
		if c.under != nil && !(mutant.Enabled && mutant.On(mutant.TwoAtOnce)) || c.view == nil || c.halted {
			break
		}
		if s.superseded && !s.done {
			c.wind(s)
		}
		if s.done {
			continue
		}
		if !s.superseded && !s.ready {
			break
		}
		c.begin(s)
	}
	c.forget()
}

// wind ends a stay that is superseded. Its backlog, if it is not dropped, still has to go to the
// log.
func (c *Core) wind(s *stay) {
	if s.phase == waiting {
		s.next = HandOver
		return
	}
	s.done = true
	c.emit(Effect{Do: Arrive, Stay: s.id})
}

// begin begins the next activity of a stay.
func (c *Core) begin(s *stay) {
	e := Effect{Do: s.next, Stay: s.id, View: s.view.ID, Index: s.index, Last: s.boundary}
	switch s.next {
	case FetchState:
		if !c.choose(s, &s.state, c.givers(s), &e) {
			return
		}
	case FillLog:
		if s.boundary == (order.Version{}) {
			e.Do = EmptyLog
		} else {
			c.choose(s, &s.log, LogSources(c.view, s.view.Subgroups[s.index].Name, s.shard, c.cfg.Self), &e)
		}
	case HandOver:
		if s.fresh && !(mutant.Enabled && mutant.On(mutant.StateTwice)) {
			keep := append(StateSources(s.view, s.index, c.cfg.Self), freshPeers(s.view, s.index, c.cfg.Self)...)
			c.emit(Effect{Do: Thank, Stay: s.id, To: keep})
		}
	}
	if invariants.Enabled {
		invariants.Check(c.under == nil, "SH1", "stay %d begins activity %d while another one is in progress", s.id, e.Do)
		invariants.Check(e.Do != HandOver || s.ready || s.superseded, "SH2", "stay %d hands its backlog over before its state is here", s.id)
	}
	c.number++
	e.Activity = c.number
	c.under = &activity{stay: s, number: c.number, verb: e.Do}
	c.emit(e)
}

// givers returns the members of the view in force that may give the state of a stay's first view:
// the members that were in the shard before, and, when none of these is left, the members that were
// fresh together with this process and may have got the state. From then on this process gives the
// state to none of them, so that no two processes wait for each other.
func (c *Core) givers(s *stay) []views.Member {
	gone := func(m views.Member) bool { return !slices.Contains(c.view.Members, m) }
	before := slices.DeleteFunc(StateSources(s.view, s.index, c.cfg.Self), gone)
	if s.state.Left(before) {
		return before
	}
	peers := freshPeers(s.view, s.index, c.cfg.Self)
	if !s.orphan && len(peers) > 0 {
		s.orphan = true
		own := mark{s.view.ID, s.index}
		s.promised = slices.DeleteFunc(s.promised, func(m mark) bool { return m == own })
		c.emit(Effect{Do: WithholdState, Stay: s.id, View: own.view, Index: own.index})
	}
	return append(before, slices.DeleteFunc(peers, gone)...)
}

// choose chooses the source of an activity, or lets the activity rest first. It returns false if no
// source of the state is left.
func (c *Core) choose(s *stay, sources *Sources, candidates []views.Member, e *Effect) bool {
	source, pause, left := sources.Next(candidates)
	switch {
	case !left && e.Do == FetchState:
		sg := s.view.Subgroups[s.index]
		c.fail(s, errors.Join(append([]error{fmt.Errorf("subgroup %q as of view %d: %w", sg.Name, s.view.ID, ErrStateLost)}, s.told...)...))
		return false
	case source.ID == 0: // all were asked in this round
		s.afterResume, e.Do, e.Pause = e.Do, Rest, pause
	default:
		s.source, e.Source = source, source
	}
	return true
}

func (c *Core) fail(s *stay, err error) {
	s.done = true
	c.emit(Effect{Do: Fail, Stay: s.id, Err: err})
}

// Ended says how an activity came out.
func (c *Core) Ended(number Activity, r Result) {
	u := c.under
	if u == nil || u.number != number {
		return
	}
	c.under = nil
	s := u.stay
	switch {
	case r.Outcome == Fatal:
		c.fail(s, r.Err)
	case u.cancelled:
	case r.Outcome == Dropped, u.verb == HandOver && s.phase == over:
		// What the shard delivered after Drop is missing, though the backlog may have been empty by then
		// (SH5).
		s.done = true
		c.emit(Effect{Do: Arrive, Stay: s.id})
	case r.Outcome == Done:
		c.follow(s, u.verb, r)
	default:
		c.ask(s, u, r)
	}
	c.advance()
}

// ask goes on with another source.
func (c *Core) ask(s *stay, u *activity, r Result) {
	switch {
	case u.gone:
		r.Err = fmt.Errorf("%w: %w", errSourceGone, r.Err)
	case r.Outcome == Later:
		return
	case r.Outcome == Refused && u.verb == FetchState:
		s.state.Refused(s.source.ID)
		s.told = append(s.told, fmt.Errorf("node %d: %w", s.source.ID, r.Err))
	}
	if r.Progress {
		s.log.Progress()
		if mutant.Enabled && mutant.On(mutant.HalfLog) {
			s.next = SyncLog
		}
	}
	c.emit(Effect{Do: SourceFailed, Stay: s.id, Source: s.source, Err: r.Err})
}

// follow finds out what follows an activity that is done.
func (c *Core) follow(s *stay, verb Verb, r Result) {
	switch verb {
	case FetchState:
		s.next = HandOver
		if c.cfg.Logs {
			s.boundary, s.next = r.Last, FillLog
		}
	case FillLog, EmptyLog:
		s.next = SyncLog
		if mutant.Enabled && mutant.On(mutant.CompleteUnsynced) {
			s.next = CompleteLog
		}
	case SyncLog:
		if s.next = Recover; s.fresh {
			s.next = CompleteLog
		}
	case CompleteLog:
		s.next = Recover
	case RestoreEmpty:
		c.emit(Effect{Do: Begun, Stay: s.id})
		s.next = HandOver
	case Recover:
		s.next = HandOver
	case Rest:
		s.next = s.afterResume
	case HandOver:
		again := mutant.Enabled && mutant.On(mutant.StateTwice) && s.fresh && !s.arrived
		if c.through(s); again {
			s.done, s.next = false, FetchState
		}
	}
	if s.next == Recover && verb != Recover && !c.cfg.Recovers {
		s.next = HandOver
	}
}

// through notes that the backlog is empty, for good.
func (c *Core) through(s *stay) {
	s.done, s.arrived, s.promised = true, true, nil
	c.emit(Effect{Do: Arrive, Stay: s.id})
	if c.cfg.Logs && !c.isHeld(s) {
		if invariants.Enabled {
			for _, t := range c.stays {
				invariants.Check(t.shard != s.shard || t.done || t.began == 0, "SH6", "stay %d frees the log, and stay %d has a backlog", s.id, t.id)
			}
		}
		c.emit(Effect{Do: FreeLog, Stay: s.id})
	}
	if s.superseded {
		s.phase = over
		c.emit(Effect{Do: Over, Stay: s.id})
		return
	}
	s.phase = live
	c.emit(Effect{Do: Live, Stay: s.id})
	if s.fresh {
		c.emit(Effect{Do: Restored, Stay: s.id})
	}
}

// isHeld reports whether a later stay in the same shard holds the log: it lacks something, or that
// stay has a backlog for it.
func (c *Core) isHeld(s *stay) bool {
	freed := mutant.Enabled && mutant.On(mutant.EarlyFreed)
	return slices.ContainsFunc(c.stays, func(t *stay) bool {
		return t.id > s.id && t.shard == s.shard && (t.fresh || t.began != 0 && !t.done && !freed)
	})
}
