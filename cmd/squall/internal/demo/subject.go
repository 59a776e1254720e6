package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

const (
	chaosSubgroup = "chaos"
	// lookEvery is how often a member looks whether everything has come.
	lookEvery = 5 * time.Millisecond
)

// subject is a member in a demo with --chaos.
type subject struct {
	subjectConfig
	parent  *proc.Parent
	group   *squall.Group
	replica *replica
	events  *os.File
	silent  chan struct{} // closed when this member is to send no more
	sent    chan sending  // how that ended
	result  sending       // what sent had to say
}

// sending is how many messages were accepted, and why no more were; nil if that was wanted.
type sending struct {
	n   uint64
	err error
}

// serveSubject is the function of a member process.
func serveSubject(ctx context.Context, parent *proc.Parent) error {
	m := &subject{parent: parent, silent: make(chan struct{}), sent: make(chan sending, 1)}
	if err := parent.Config(&m.subjectConfig); err != nil {
		return err
	}
	m.replica = newReplica(m.say)
	var err error
	if m.events, err = os.OpenFile(m.Events, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	defer m.events.Close()
	return m.run(ctx)
}

// say tells the parent. If that is gone, so is the context, and soon this process.
func (m *subject) say(r subjectReport) { m.parent.Send(r) }

func (m *subject) run(ctx context.Context) (err error) {
	if m.group, err = squall.Open(ctx, m.groupConfig()); err != nil {
		return err
	}
	sending, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		m.quit() // nobody claims room in a group that closes
		err = errors.Join(err, m.close(ctx))
	}()
	go m.send(sending)
	for {
		do, err := m.next(ctx)
		if reason := m.group.Err(); reason != nil {
			return m.halted(reason)
		}
		if err != nil {
			return err
		}
		if do.Leave {
			return m.leave(ctx)
		}
		m.obey(ctx, do)
	}
}

// obey does what the parent asks of a member that stays.
func (m *subject) obey(ctx context.Context, do command) {
	switch {
	case do.Stop:
		m.quit()
		m.say(subjectReport{Stopped: &m.result.n})
	case do.Finish != nil:
		go m.finish(ctx, do.Finish) // the parent may want to know more if that takes long
	case do.Dump:
		if err := m.group.Dump(m.events); err != nil {
			fmt.Fprintln(m.events, err)
		}
		m.say(subjectReport{Dumped: true})
	}
}

// next waits for the parent, or for the end of the group.
func (m *subject) next(ctx context.Context) (do command, err error) {
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

func (m *subject) groupConfig() squall.Config {
	var log io.Writer = io.Discard
	if m.Verbose {
		log = os.Stderr
	}
	return squall.Config{
		Cluster: m.Cluster, ID: m.ID, Listen: m.Listen, Join: m.Join, Expect: m.Expect, Fabric: m.Fabric, FailAfter: m.FailAfter,
		Subgroups: []squall.SubgroupConfig{{
			Name: chaosSubgroup, DeliverBatch: m.replica.deliver, Snapshot: m.replica.snapshot, Restore: m.replica.restore,
		}},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
		Events: m.happened,
	}
}

// happened writes down what happens, and tells the parent what it wants to know.
func (m *subject) happened(e squall.Event) {
	fmt.Fprintf(m.events, "%s %T: %v\n", time.Now().Format("15:04:05.000000"), e, e)
	switch e := e.(type) {
	case squall.Listening:
		m.say(subjectReport{Listening: e.Addr})
	case squall.ViewInstalled:
		v := viewReport{ID: e.View.ID}
		for _, member := range e.View.Members {
			v.Nodes = append(v.Nodes, member.ID)
		}
		m.say(subjectReport{View: &v})
	case squall.StateRestored:
		m.say(subjectReport{Restored: &restored{e.Source, m.replica.restored(), e.Took + e.Behind}})
	}
}

// send sends lines until it is to stop. Each goes as soon as there is room for it.
func (m *subject) send(ctx context.Context) {
	var s sending
	for {
		select {
		case <-m.silent:
			m.sent <- s
			return
		default:
		}
		if s.err = m.sendLine(ctx, s.n, m.Lines[s.n%uint64(len(m.Lines))]); s.err != nil {
			m.sent <- s
			return
		}
		s.n++
	}
}

// sendLine sends a line, cut or padded with blanks to the size that was asked for.
func (m *subject) sendLine(ctx context.Context, number uint64, line []byte) error {
	size := headerBytes + len(line)
	if m.Size > 0 {
		size = m.Size
	}
	claim, err := m.group.Subgroup(chaosSubgroup).Claim(ctx, size)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(claim.Bytes, uint64(m.Process))
	binary.LittleEndian.PutUint64(claim.Bytes[8:], number)
	for i := headerBytes + copy(claim.Bytes[headerBytes:], line); i < size; i++ {
		claim.Bytes[i] = ' '
	}
	return claim.Commit()
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

// finish waits until everything that was sent is delivered here, and tells what that is.
func (m *subject) finish(ctx context.Context, sent []uint64) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !m.replica.has(sent) {
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

// halted tells why this member is none any more. That is what it is here for, and no error of this process.
func (m *subject) halted(reason error) error {
	m.quit()
	m.report(reason)
	return nil
}

// leave takes this member out of the group, with all that it sent delivered. That takes as long as it takes: who hangs holds it up.
func (m *subject) leave(ctx context.Context) error {
	m.quit()
	err := m.group.Leave(ctx)
	switch reason := m.group.Err(); {
	case reason != nil && !errors.Is(reason, squall.ErrClosed):
		return m.halted(reason)
	case err != nil:
		return fmt.Errorf("leave: %w", err)
	}
	m.report(nil)
	return nil
}

// close releases the group. One that halted has nobody to take leave of.
func (m *subject) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if m.group.Err() != nil {
		m.group.Close(ctx) // says again why it halted
		return nil
	}
	return m.group.Close(ctx)
}
