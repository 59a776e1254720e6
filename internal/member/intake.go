package member

import (
	"github.com/squall-go/squall/internal/backlog"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/views"
)

// Intake takes what a shard delivers during one stay of this member there. All but the backlog is
// the loop's.
//
// Package shard says when deliveries are held, and when the application gets them.
type Intake struct {
	App multicast.Receiver
	// Recorder keeps the deliveries of a shard with a log; otherwise nil.
	Recorder *Recorder
	// Begins is called once for each view, before its first delivery, when everything of earlier
	// views is delivered.
	Begins func(v *views.View, subgroup int)

	backlog *backlog.Backlog
	fresh   bool // the state, or the log, comes from other members
	mode    intakeMode
}

type intakeMode uint8

const (
	passing intakeMode = iota // the application gets deliveries
	holding                   // they wait in the backlog
	keeping                   // only the log gets them
)

// Hold has deliveries wait in a backlog until Pass or Keep: until a state or a log is here, which
// comes from other members if this one is fresh.
func (t *Intake) Hold(b *backlog.Backlog, fresh bool) { t.backlog, t.fresh, t.mode = b, fresh, holding }

// Pass has the application get deliveries.
func (t *Intake) Pass() { t.mode = passing }

// Passes reports whether the application gets deliveries as they come.
func (t *Intake) Passes() bool { return t.mode == passing }

// Keep has nothing but the log get deliveries, if there is one that is complete.
func (t *Intake) Keep() { t.mode = keeping }

// Backlog is where deliveries wait, or waited; nil: they never did.
func (t *Intake) Backlog() *backlog.Backlog { return t.backlog }

// Deliver implements multicast.Receiver. When everything in the backlog is handed over, it takes
// nothing until Pass or Keep.
func (t *Intake) Deliver(run []multicast.Message) (taken int) {
	switch {
	case t.mode == holding:
		taken, _ = t.backlog.Deliver(run)
		return taken
	case t.Recorder != nil && t.mode == keeping:
		return t.Recorder.Keep(run)
	case t.Recorder != nil:
		return t.Recorder.Deliver(run)
	case t.mode == keeping:
		return len(run)
	}
	return t.App.Deliver(run)
}

// MaxRun implements multicast.Receiver.
func (t *Intake) MaxRun() int { return t.App.MaxRun() }

// Keeper is the application, if it keeps messages that it was given; otherwise nil.
func (t *Intake) Keeper() multicast.Keeper {
	k, _ := t.App.(multicast.Keeper)
	return k
}

// Begin implements Receiver.
func (t *Intake) Begin(v *views.View, subgroup int) { t.Begins(v, subgroup) }

// Refuses implements Receiver. Any goroutine that saw Hold may call it.
func (t *Intake) Refuses() bool { return t.fresh && t.backlog.Full() }

// Whole implements Receiver.
func (t *Intake) Whole() bool { return t.mode != holding }
