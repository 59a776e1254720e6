package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
)

// closeWithin is how long a member may take to leave at the end.
const closeWithin = 5 * time.Second

// lookEvery is how often a member looks whether everything has come.
const lookEvery = 5 * time.Millisecond

// subject is a member in a trial. With --chaos and --durable it sends lines without a pause until it
// is to stop, and tells what it has then.
type subject struct {
	subjectConfig
	parent  *proc.Parent
	group   *squall.Group
	lines   *squall.Subgroup
	replica *replica
	silent  chan struct{} // closed when this member is to send no more
	sent    chan sending  // how that ended; nil: that is in result
	result  sending
}

// sending is how many messages were accepted, and why no more were; nil if that was wanted.
type sending struct {
	n   uint64
	err error
}

// newSubject is a member of which nothing is known but what the parent tells.
func newSubject(parent *proc.Parent) (s subject, err error) {
	s = subject{parent: parent, silent: make(chan struct{}), sent: make(chan sending, 1)}
	return s, parent.Config(&s.subjectConfig)
}

// say tells the parent. If that is gone, so is the context, and soon this process.
func (m *subject) say(r subjectReport) { m.parent.Send(r) }

// open opens the group, and finds its subgroup.
func (m *subject) open(ctx context.Context, c squall.Config) (err error) {
	if m.group, err = squall.Open(ctx, c); err == nil {
		m.lines, err = m.group.Subgroup(m.Subgroup)
	}
	return err
}

// groupConfig is that of a group with one subgroup.
func (m *subject) groupConfig(of squall.SubgroupConfig, happened func(squall.Event)) squall.Config {
	of.Name = m.Subgroup
	return squall.Config{
		Cluster: m.Cluster, ID: m.ID, Dir: m.Dir, Listen: m.Listen, Join: m.Join, InitialMembers: m.Expect, Fabric: m.Fabric, FailAfter: m.FailAfter,
		Subgroups: []squall.SubgroupConfig{of}, Logger: logger(m.Verbose), Events: happened,
	}
}

// logger is for people, where they want to see what members log.
func logger(verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

// happened tells the parent what it wants to know of every subject.
func (m *subject) happened(e squall.Event) {
	switch e := e.(type) {
	case squall.Listening:
		m.say(subjectReport{Listening: e.Addr})
	case squall.ViewInstalled:
		v := viewReport{ID: e.View.ID}
		for _, member := range e.View.Members {
			v.Nodes = append(v.Nodes, member.ID)
		}
		m.say(subjectReport{View: &v})
	}
}

// next waits for the parent, or for the end of the group.
func (m *subject) next(ctx context.Context) (do order, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.group.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	err = m.parent.Receive(ctx, &do)
	return do, err
}

// send sends lines until it is to stop. Each goes as soon as there is room for it.
func (m *subject) send(ctx context.Context, sendLine func(ctx context.Context, number uint64) error) {
	var s sending
	for {
		select {
		case <-m.silent:
			m.sent <- s
			return
		default:
		}
		if s.err = sendLine(ctx, s.n); s.err != nil {
			m.sent <- s
			return
		}
		s.n++
	}
}

// claim makes a message of the line that belongs to its number.
func (m *subject) claim(ctx context.Context, number uint64) (squall.Claim, error) {
	line := m.line(number)
	claim, err := m.lines.Claim(ctx, headerBytes+m.textBytes(line))
	if err != nil {
		return claim, err
	}
	binary.LittleEndian.PutUint64(claim.Bytes, uint64(m.Process))
	binary.LittleEndian.PutUint64(claim.Bytes[8:], number)
	fill(claim.Bytes[headerBytes:], line)
	return claim, nil
}

func (c *subjectConfig) line(number uint64) []byte { return c.Lines[number%uint64(len(c.Lines))] }

// textBytes is how much of a message comes behind its header.
func (c *subjectConfig) textBytes(line []byte) int {
	if c.Size > 0 {
		return c.Size - headerBytes
	}
	return len(line)
}

// stop stops sending, and tells how much that was.
func (m *subject) stop() {
	m.quit()
	m.say(subjectReport{Stopped: &m.result.n})
}

// quit stops sending, once.
func (m *subject) quit() {
	if m.sent == nil {
		return
	}
	close(m.silent)
	m.result = <-m.sent
	m.sent = nil
	if err := m.result.err; err != nil && m.group.Err() == nil && !errors.Is(err, context.Canceled) {
		m.say(subjectReport{Fault: fmt.Sprintf("node %d could not send its message %d: %v", m.ID, m.result.n, err)})
	}
}

// finish waits until this member has everything, and tells what that is.
func (m *subject) finish(ctx context.Context, complete func() bool) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !complete() {
		select {
		case <-tick.C:
		case <-m.group.Done():
			return
		case <-ctx.Done():
			return
		}
	}
	m.report(nil)
}

// report gives this member's account: at the end of the run, or of its own time, with the reason.
func (m *subject) report(reason error) {
	a := m.replica.account()
	a.Sent = m.result.n
	if reason != nil {
		a.Halted, a.Evicted = reason.Error(), errors.Is(reason, squall.ErrEvicted)
	}
	m.say(subjectReport{Account: a})
}

// close releases the group. A group that halted has no members to take leave of.
func (m *subject) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if m.group.Err() != nil {
		m.group.Close(ctx) // says again why it halted
		return nil
	}
	return m.group.Close(ctx)
}
