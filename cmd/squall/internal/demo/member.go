package demo

import (
	"context"
	"errors"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/rdma"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
	"github.com/squall-go/squall/internal/proc"
)

const progressEvery = 100 * time.Millisecond

// closeWithin is how long a member may take to leave at the end.
const closeWithin = 5 * time.Second

// member is a member in a demo without --chaos and --durable.
type member struct {
	memberConfig
	load   testlab.Load
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
func serveMember(ctx context.Context, parent *proc.Parent) (err error) {
	m := &member{parent: parent, missed: make(chan missing, 1)}
	if err = parent.Config(&m.memberConfig); err != nil {
		return err
	}
	m.load, m.seq = m.Loads[0], newSequence(m.ID, m.Total)
	return m.run(ctx)
}

// say tells the parent. If that is gone, so is the context, and soon this process.
func (m *member) say(what any) { m.parent.Send(what) }

// open opens the group, and finds its subgroup.
func (m *member) open(ctx context.Context) (err error) {
	c := m.Config()
	c.Events = m.happened
	c.Subgroups = []squall.SubgroupConfig{{Name: m.load.Name, DeliverBatch: m.seq.deliver}}
	if err = rdma.Use(&c); err != nil {
		return err
	}
	if m.group, err = squall.Open(ctx, c); err == nil {
		m.lines, err = m.group.Subgroup(m.load.Name)
	}
	return err
}

func (m *member) run(ctx context.Context) (err error) {
	if err = m.open(ctx); err != nil {
		return err
	}
	defer func(ctx context.Context) { err = m.close(ctx, err) }(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(m.broken(ctx)) }()
	links, err := m.links()
	if err != nil {
		return err
	}
	m.say(memberReport{Links: links})
	for {
		var r testlab.Request
		if err := m.parent.Receive(ctx, &r); err != nil {
			return err
		}
		switch r.Do {
		case testlab.DoSend:
			err = m.send(ctx)
		case doProbe:
			err = m.probe(ctx)
		case testlab.DoLeave:
			return nil
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

// happened tells the parent what it wants to know.
func (m *member) happened(e squall.Event) {
	switch e := e.(type) {
	case squall.MemberDown:
		select {
		case m.missed <- missing{e}:
		default: // not the first one
		}
	case squall.Listening:
		m.say(testlab.News{Kind: testlab.NewsListening, Text: e.Addr})
	}
}

// links are the fabrics to all members, by id.
func (m *member) links() (links []string, err error) {
	links = make([]string, m.Expect)
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
			m.say(memberReport{Progress: m.seq.count.Load()})
		case <-m.seq.all:
			waiting = false
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	stats := m.lines.Stats()
	m.say(memberReport{Delivered: &delivered{
		Messages: m.seq.total, Bytes: m.seq.digest.Bytes, Digest: m.seq.digest.Sum(), Took: m.seq.end - start, Loaded: latencyOf(m.seq.loaded),
		Batch: batches{stats.SendBatch.Mean(), stats.ReceiveBatch.Mean(), stats.DeliverBatch.Mean()},
	}})
	return nil
}

func (m *member) sendAll(ctx context.Context) error {
	for range m.Repeat {
		for _, line := range m.load.Lines {
			if err := m.sendLine(ctx, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendLine sends a line, cut or padded with blanks to the size that was asked for.
func (m *member) sendLine(ctx context.Context, line []byte) error {
	size := m.load.Bytes
	if size == 0 {
		size = len(line)
	}
	m.seq.sending()
	claim, err := m.lines.Claim(ctx, size)
	if err != nil {
		return err
	}
	testlab.Pad(claim.Bytes, line)
	return claim.Commit()
}

// probe is this member's part of the unloaded phase: one message at a time.
func (m *member) probe(ctx context.Context) error {
	unloaded := newHistogram()
	line := tzdata[:64]
	if len(m.load.Lines) > 0 {
		line = m.load.Lines[0]
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
	m.say(memberReport{Probed: &probed})
	return nil
}

// close leaves the group, after err if that is not nil. A member that misses another one reports
// it, and stays until the parent has heard all members: to the others, its end would look like one
// more failure.
func (m *member) close(ctx context.Context, err error) error {
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, closeWithin)
		defer cancel()
		return m.group.Close(ctx)
	}
	var who missing
	if errors.As(err, &who) {
		m.say(memberReport{Lost: &lost{ID: who.Member.ID, Error: who.Error()}})
		<-ctx.Done()
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	m.group.Close(ctx)
	return err
}
