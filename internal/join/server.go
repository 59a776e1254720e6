package join

import (
	"context"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Server takes the requests of processes that want to join, from the first view on that this
// process is a member of. It is an Acceptor on the process's port. Its methods may be called from
// any goroutine, and do not wait for any peer, except for Close.
type Server struct {
	*sessions
	acceptor *Acceptor // guarded by sessions.mu
	last     Ticket    // the same
	joiner   *dialer   // what is left of this process's own joining; nil for a member of the first view

	trying context.Context // of the probes
	giveUp context.CancelFunc
}

func openServer(c Config, v *views.View, j *dialer, changed func()) *Server {
	self, _ := v.RankOf(c.Self.ID)
	d := &Server{sessions: newSessions(newLimiter(c, serverSessions)), joiner: j}
	d.acceptor = NewAcceptor(AcceptorConfig{
		Cluster: c.Cluster, Declarations: c.Declarations, FailAfter: c.FailAfter, Silence: c.silence, Probe: c.Reach != nil, Room: c.Room, Admit: c.Admit,
	}, v, self)
	d.tick, d.next = d.acceptor.Tick, d.acceptor.Next
	if changed != nil {
		d.told = changed
	}
	d.trying, d.giveUp = context.WithCancel(context.Background())
	d.probe = func(p Probe) {
		if c.Reach != nil {
			d.try(p, c.Reach)
		}
	}
	d.port.Handle(port.KindControl, d.handler(d.converse))
	return d
}

// serverSessions is how many connections a Server has at a time: all that an Acceptor has, and as
// many whose request did not arrive yet.
const serverSessions = 4 * maxTalks

func (d *Server) converse(conn *conversation, q Request) {
	var t Ticket
	var l *writer
	d.step(func(now time.Duration) Effects {
		d.last++
		t = d.last
		l = d.begin(t, conn)
		return d.acceptor.Ask(now, t, q)
	})
	if l == nil {
		return // it is closed
	}
	d.read(t, l,
		func(now time.Duration, m Message) Effects { return d.acceptor.Hear(now, t, m) },
		func(now time.Duration, err error) Effects { return d.acceptor.Gone(now, t, gone(err)) })
}

// leaving is the time that a process has to end whose successor asks for its place already.
const leaving = 500 * time.Millisecond

// try tries in the background whether a process can be reached.
func (d *Server) try(p Probe, reach func(context.Context, views.Member) error) {
	d.writers.Go(func() {
		ctx, cancel := context.WithTimeout(d.trying, d.silence)
		defer cancel()
		err := reach(ctx, p.Member)
		if p.Holds {
			if err == nil && wait.Sleep(ctx, leaving) == nil {
				err = reach(ctx, p.Member)
			}
			d.step(func(now time.Duration) Effects { return d.acceptor.HolderTried(now, p.Ticket, p.Member, err) })
			return
		}
		d.step(func(now time.Duration) Effects { return d.acceptor.Probed(now, p.Ticket, err) })
	})
}

// Failed takes a member of the view that failed, and whether it never showed a heartbeat in it.
func (d *Server) Failed(m views.Member, absent bool) {
	d.step(func(now time.Duration) Effects {
		d.acceptor.Failed(now, m, absent)
		return Effects{}
	})
}

// Installed takes a view that was installed here. It returns the new members that have failed
// already: no conversation with them is left.
func (d *Server) Installed(v *views.View, self order.Rank) (lost []views.Member) {
	d.step(func(now time.Duration) (e Effects) {
		e, lost = d.acceptor.Installed(now, v, self)
		return e
	})
	return lost
}

// Lead sets the rank that leads the group now. After Installed it is rank 0 until something else is
// said.
func (d *Server) Lead(leader order.Rank) {
	d.step(func(time.Duration) Effects { return d.acceptor.Lead(leader) })
}

// Candidates are the joiners that may be proposed, in the order in which they became ready.
func (d *Server) Candidates() []views.Member {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.acceptor.Candidates()
}

// Halted sends all joiners away, because this process is no member any more.
func (d *Server) Halted(reason error) {
	d.step(func(time.Duration) Effects { return d.acceptor.Halted(reason) })
}

// Close ends all conversations, and waits, no longer than a peer's silence is borne, until what was
// said in them has left.
func (d *Server) Close() {
	d.port.Handle(port.KindControl, nil)
	d.giveUp()
	d.stop()
	if d.joiner != nil {
		d.joiner.stop()
	}
}
