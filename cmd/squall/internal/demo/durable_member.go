package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
)

// mostUnacked is how many messages of a member may be on their way to disks.
const mostUnacked = 4096

// durableMember is a member in a demo with --durable: it keeps what is delivered in a log.
type durableMember struct {
	subject
	unacked chan unacked
	acked   atomic.Uint64
}

// unacked is a message of which it is not known whether it is on every disk.
type unacked struct {
	number uint64
	future *squall.Future
}

// serveDurableMember is the function of a member process.
func serveDurableMember(ctx context.Context, parent *proc.Parent) (err error) {
	m := &durableMember{unacked: make(chan unacked, mostUnacked)}
	if m.subject, err = newSubject(parent); err != nil {
		return err
	}
	m.replica = newReplica(func(r subjectReport) {
		if r.Fault != "" {
			m.say(r)
		}
	})
	return m.run(ctx)
}

func (m *durableMember) run(ctx context.Context) (err error) {
	config := squall.SubgroupConfig{Mode: squall.Persistent, DeliverBatch: m.deliver, Log: squall.LogConfig{Engine: m.Engine, Recover: m.recover}}
	if err = m.open(ctx, m.groupConfig(config, m.happened)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		m.quit() // no sender claims room in a group that closes
		err = errors.Join(err, m.close(ctx))
	}()
	go m.acknowledge(ctx)
	go m.send(ctx, m.sendLine)
	for {
		do, err := m.next(ctx)
		switch {
		case err != nil:
			return errors.Join(err, m.group.Err())
		case do.Stop:
			m.stop()
		case do.Finish != nil:
			go m.finish(ctx, func() bool { return m.replica.has(do.Finish) && m.acked.Load() >= m.result.n })
		case do.Leave:
			return nil
		}
	}
}

// happened tells the parent what it wants to know.
func (m *durableMember) happened(e squall.Event) {
	if e, ok := e.(squall.Restarting); ok && e.Step == squall.RestartWaiting && len(e.Nodes) > 0 {
		m.say(subjectReport{Waiting: strings.TrimPrefix(e.String(), "waiting for ")})
	}
	m.subject.happened(e)
}

// deliver is the upcall.
func (m *durableMember) deliver(run []squall.Message) {
	for _, msg := range run {
		m.look(msg.Data)
	}
	m.replica.deliver(run)
}

// recover is the upcall that takes the state from the log.
func (m *durableMember) recover(l *squall.Log) error {
	start := time.Now()
	m.replica.reset()
	for r, err := range l.Range(squall.Version{}, squall.Version{}) {
		if err != nil {
			return err
		}
		m.look(r.Data)
		m.replica.replay(squall.Message{View: r.Version.View, Seq: r.Version.Seq, Sender: r.Sender, Data: r.Data})
	}
	m.say(subjectReport{Restored: &restored{m.ID, m.replica.restored(), time.Since(start)}})
	return nil
}

// look compares a message with the line that was sent. Its number is the replica's to look at.
func (m *durableMember) look(data []byte) {
	if len(data) < headerBytes {
		return // the replica says so
	}
	number := binary.LittleEndian.Uint64(data[8:])
	if !bytes.Equal(data[headerBytes:], m.text(number)) {
		m.say(subjectReport{Fault: fmt.Sprintf("message %d of process %d is not the line that was sent", number, binary.LittleEndian.Uint64(data))})
	}
}

// text is what a message carries behind its header.
func (c *subjectConfig) text(number uint64) []byte {
	line := c.line(number)
	if c.Size == 0 {
		return line
	}
	text := make([]byte, c.textBytes(line))
	fill(text, line)
	return text
}

func (m *durableMember) sendLine(ctx context.Context, number uint64) error {
	claim, err := m.claim(ctx, number)
	if err != nil {
		return err
	}
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

// acknowledge tells the parent which messages of this member are on every disk. They come there in
// their order, so the newest stands for all before it.
func (m *durableMember) acknowledge(ctx context.Context) {
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
		m.say(subjectReport{Acked: newest.number + 1})
	}
}
