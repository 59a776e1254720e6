package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
)

const (
	subgroup      = "lines"
	progressEvery = 100 * time.Millisecond
	closeWithin   = 5 * time.Second
)

// member is one process of the group.
type member struct {
	config
	parent *proc.Parent
	group  *squall.Group
	lines  *squall.Subgroup
	seq    *sequence
	missed chan missing // the first member that failed
}

// missing is why a demo ends when a member failed. The others go on, but what the failed one had to
// send will never come.
type missing struct{ squall.MemberDown }

func (m missing) Error() string { return m.String() }
func (m missing) Unwrap() error { return m.Err }

// serveMember is the function of a member process.
func serveMember(ctx context.Context, parent *proc.Parent) error {
	m := &member{parent: parent, missed: make(chan missing, 1)}
	if err := parent.Config(&m.config); err != nil {
		return err
	}
	m.seq = newSequence(m.ID, m.Total)
	return m.run(ctx)
}

func (m *member) run(ctx context.Context) (err error) {
	var join []string
	if m.ID > 1 {
		join = make([]string, 1)
		if err := m.parent.Receive(ctx, &join[0]); err != nil {
			return err
		}
	}
	if m.group, err = squall.Open(ctx, m.groupConfig(join)); err != nil {
		return err
	}
	defer func(ctx context.Context) { err = m.close(ctx, err) }(ctx)
	if m.lines, err = m.group.Subgroup(subgroup); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(m.broken(ctx)) }()
	links, err := m.links()
	if err != nil {
		return err
	}
	if err := m.parent.Send(report{Links: links}); err != nil {
		return err
	}
	for {
		var do string
		if err := m.parent.Receive(ctx, &do); err != nil {
			return err
		}
		switch do {
		case doSend:
			err = m.send(ctx)
		case doProbe:
			err = m.probe(ctx)
		case doLeave:
			return nil
		default:
			err = fmt.Errorf("the parent asks for %q", do)
		}
		if err != nil {
			return err
		}
	}
}

// broken waits until the group is not what it was, and returns why.
func (m *member) broken(ctx context.Context) error {
	select {
	case who := <-m.missed:
		return who
	case <-m.group.Done():
	case <-ctx.Done():
		return nil
	}
	select {
	case who := <-m.missed: // which is why it halted
		return who
	default:
		return m.group.Err()
	}
}

func (m *member) groupConfig(join []string) squall.Config {
	return squall.Config{
		Cluster: m.Cluster, ID: m.ID, Listen: m.Listen, Join: join, InitialMembers: m.Nodes, Fabric: fabrics[m.Fabric],
		Subgroups: []squall.SubgroupConfig{{Name: subgroup, DeliverBatch: m.seq.deliver}},
		Logger:    logger(m.Verbose),
		Events:    m.happened,
	}
}

// logger is for people, where they want to see what members log.
func logger(verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

func (m *member) happened(e squall.Event) {
	switch e := e.(type) {
	case squall.Listening:
		if m.ID == 1 {
			m.parent.Send(report{Listening: e.Addr}) // if the parent is gone, so is ctx
		}
	case squall.MemberDown:
		select {
		case m.missed <- missing{e}:
		default: // not the first one
		}
	}
}

// links are the fabrics to all members, by id.
func (m *member) links() (links []string, err error) {
	links = make([]string, m.Nodes)
	for i := range links {
		if links[i], err = m.group.Debug().Link(squall.NodeID(i + 1)); err != nil {
			return nil, err
		}
	}
	return links, nil
}

// send is the loaded phase: send everything, deliver everything, report.
func (m *member) send(ctx context.Context) error {
	start := time.Since(m.seq.epoch)
	sent := make(chan error, 1)
	go func() { sent <- m.sendAll(ctx) }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case err := <-sent:
			if err != nil {
				return err
			}
			sent = nil
		case <-tick.C:
			if err := m.parent.Send(report{Progress: m.seq.count.Load()}); err != nil {
				return err
			}
		case <-m.seq.all:
			waiting = false
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	stats := m.lines.Stats()
	return m.parent.Send(report{Delivered: &delivered{
		Messages: m.seq.total, Bytes: m.seq.bytes, Digest: m.seq.sum(), Took: m.seq.end - start, Loaded: latencyOf(m.seq.loaded),
		Batch: batches{stats.SendBatch.Mean(), stats.ReceiveBatch.Mean(), stats.DeliverBatch.Mean()},
	}})
}

func (m *member) sendAll(ctx context.Context) error {
	for range m.Repeat {
		for _, line := range m.Lines {
			if err := m.sendLine(ctx, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendLine sends a line, cut or padded with blanks to the size that was asked for.
func (m *member) sendLine(ctx context.Context, line []byte) error {
	size := m.Size
	if size == 0 {
		size = len(line)
	}
	m.seq.sending()
	claim, err := m.lines.Claim(ctx, size)
	if err != nil {
		return err
	}
	fill(claim.Bytes, line)
	return claim.Commit()
}

// probe is this member's part of the unloaded phase: one message at a time.
func (m *member) probe(ctx context.Context) error {
	unloaded := newHistogram()
	line := tzdata[:64]
	if len(m.Lines) > 0 {
		line = m.Lines[0]
	}
	for range m.Probes {
		if err := m.sendLine(ctx, line); err != nil {
			return err
		}
		select {
		case d := <-m.seq.probed:
			unloaded.RecordValue(int64(d))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	probed := latencyOf(unloaded)
	return m.parent.Send(report{Probed: &probed})
}

// close leaves the group, after err if that is not nil. A member that misses another one says so, and
// stays until the parent has heard everybody: to the others, its going would look like one more
// failure.
func (m *member) close(ctx context.Context, err error) error {
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, closeWithin)
		defer cancel()
		return m.group.Close(ctx)
	}
	var who missing
	if errors.As(err, &who) {
		m.parent.Send(report{Lost: &lost{ID: who.Member.ID, Error: who.Error()}})
		<-ctx.Done()
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	m.group.Close(ctx)
	return err
}
