package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

const (
	durableSubgroup = "durable"
	// mostUnacked is how many messages of a member may be on their way to disks.
	mostUnacked = 4096
)

// keeper is a member in a demo with --durable: it keeps what is delivered in a log.
type keeper struct {
	keeperConfig
	parent  *proc.Parent
	group   *squall.Group
	replica *replica
	unacked chan unacked
	acked   atomic.Uint64
	silent  chan struct{} // closed when this member is to send no more
	sent    chan sending  // how that ended
	stopped bool
	result  sending
}

// unacked is a message of which it is not known whether it is on every disk.
type unacked struct {
	number uint64
	future *squall.Future
}

// serveKeeper is the function of a member process.
func serveKeeper(ctx context.Context, parent *proc.Parent) error {
	m := &keeper{parent: parent, unacked: make(chan unacked, mostUnacked), silent: make(chan struct{}), sent: make(chan sending, 1)}
	if err := parent.Config(&m.keeperConfig); err != nil {
		return err
	}
	m.replica = newReplica(func(r subjectReport) {
		if r.Fault != "" {
			m.say(keeperReport{Fault: r.Fault})
		}
	})
	return m.run(ctx)
}

// say tells the parent. If that is gone, so is the context, and soon this process.
func (m *keeper) say(r keeperReport) { m.parent.Send(r) }

func (m *keeper) run(ctx context.Context) (err error) {
	if m.group, err = squall.Open(ctx, m.groupConfig()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		m.quit()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		err = errors.Join(err, m.group.Close(closing))
	}()
	go m.acknowledge(ctx)
	go m.send(ctx)
	go func() {
		select {
		case <-m.group.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		var do keeperOrder
		if err := m.parent.Receive(ctx, &do); err != nil {
			return errors.Join(err, m.group.Err())
		}
		switch {
		case do.Stop:
			m.quit()
			m.say(keeperReport{Stopped: &m.result.n})
		case do.Finish != nil:
			go m.finish(ctx, do.Finish)
		case do.Leave:
			return nil
		}
	}
}

func (m *keeper) groupConfig() squall.Config {
	var log io.Writer = io.Discard
	if m.Verbose {
		log = os.Stderr
	}
	return squall.Config{
		Cluster: m.Cluster, ID: m.ID, Dir: m.Dir, Listen: m.Listen, Join: m.Join, Expect: m.Expect, Fabric: m.Fabric,
		Subgroups: []squall.SubgroupConfig{{
			Name: durableSubgroup, Mode: squall.Persistent, DeliverBatch: m.deliver, Log: squall.LogConfig{Engine: m.Engine, Recover: m.recover},
		}},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
		Events: m.happened,
	}
}

func (m *keeper) happened(e squall.Event) {
	switch e := e.(type) {
	case squall.Listening:
		m.say(keeperReport{Listening: e.Addr})
	case squall.ViewInstalled:
		v := viewReport{ID: e.View.ID}
		for _, member := range e.View.Members {
			v.Nodes = append(v.Nodes, member.ID)
		}
		m.say(keeperReport{View: &v})
	case squall.Restarting:
		if why, waits := strings.CutPrefix(e.String(), "waiting for "); waits {
			m.say(keeperReport{Waiting: why})
		}
	}
}

// deliver is the upcall.
func (m *keeper) deliver(run []squall.Message) {
	for _, msg := range run {
		m.look(msg.Data)
	}
	m.replica.deliver(run)
}

// recover is the upcall that takes the state from the log.
func (m *keeper) recover(l *squall.Log) error {
	start := time.Now()
	m.replica.reset()
	for r, err := range l.Range(squall.Version{}, squall.Version{}) {
		if err != nil {
			return err
		}
		m.look(r.Data)
		m.replica.replay(squall.Message{View: r.Version.View, Seq: r.Version.Seq, Sender: r.Sender, Data: r.Data})
	}
	m.say(keeperReport{Recovered: &recovered{m.replica.restored(), time.Since(start)}})
	return nil
}

// look compares a message with the line that was sent. Its number is the replica's to look at.
func (m *keeper) look(data []byte) {
	if len(data) < headerBytes {
		return // the replica says so
	}
	number := binary.LittleEndian.Uint64(data[8:])
	if !bytes.Equal(data[headerBytes:], m.text(number)) {
		m.say(keeperReport{Fault: fmt.Sprintf("message %d of process %d is not the line that was sent", number, binary.LittleEndian.Uint64(data))})
	}
}

// text is what a message carries behind its header: a line, cut or padded with blanks to the size that was asked for.
func (c *keeperConfig) text(number uint64) []byte {
	line := c.Lines[number%uint64(len(c.Lines))]
	if c.Size == 0 {
		return line
	}
	size := c.Size - headerBytes
	if len(line) >= size {
		return line[:size]
	}
	return append(line[:len(line):len(line)], bytes.Repeat([]byte(" "), size-len(line))...)
}

// send sends lines until it is to stop.
func (m *keeper) send(ctx context.Context) {
	var s sending
	for {
		select {
		case <-m.silent:
			m.sent <- s
			return
		default:
		}
		if s.err = m.sendLine(ctx, s.n); s.err != nil {
			m.sent <- s
			return
		}
		s.n++
	}
}

func (m *keeper) sendLine(ctx context.Context, number uint64) error {
	text := m.text(number)
	claim, err := m.group.Subgroup(durableSubgroup).Claim(ctx, headerBytes+len(text))
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(claim.Bytes, uint64(m.Process))
	binary.LittleEndian.PutUint64(claim.Bytes[8:], number)
	copy(claim.Bytes[headerBytes:], text)
	f, err := claim.CommitFuture()
	if err != nil {
		return err
	}
	select {
	case m.unacked <- unacked{number, f}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acknowledge tells the parent which messages of this member are on every disk. They come there in their order, so the newest stands for all before it.
func (m *keeper) acknowledge(ctx context.Context) {
	for {
		var newest unacked
		select {
		case newest = <-m.unacked:
		case <-ctx.Done():
			return
		}
		for range len(m.unacked) {
			newest = <-m.unacked
		}
		if _, err := newest.future.Persisted(ctx, squall.OnEveryDisk); err != nil {
			return // the group's end, of which the parent hears
		}
		m.acked.Store(newest.number + 1)
		m.say(keeperReport{Acked: newest.number + 1})
	}
}

// quit stops sending, once.
func (m *keeper) quit() {
	if m.stopped {
		return
	}
	m.stopped = true
	close(m.silent)
	m.result = <-m.sent
	if err := m.result.err; err != nil && m.group.Err() == nil && !errors.Is(err, context.Canceled) {
		m.say(keeperReport{Fault: fmt.Sprintf("node %d could not send its message %d: %v", m.ID, m.result.n, err)})
	}
}

// finish waits until everything that was sent is delivered here, and on every disk, and tells what that is.
func (m *keeper) finish(ctx context.Context, sent []uint64) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !m.replica.has(sent) || m.acked.Load() < m.result.n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	a := m.replica.account()
	a.Sent = m.result.n
	m.say(keeperReport{Account: a})
}
