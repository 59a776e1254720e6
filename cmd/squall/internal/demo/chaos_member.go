package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
)

// chaosMember is a member in a demo with --chaos: it gets the state from the others.
type chaosMember struct {
	subject
	events *os.File
}

// serveChaosMember is the function of a member process.
func serveChaosMember(ctx context.Context, parent *proc.Parent) (err error) {
	m := &chaosMember{}
	if m.subject, err = newSubject(parent); err != nil {
		return err
	}
	m.replica = newReplica(m.say)
	if m.events, err = os.OpenFile(m.Events, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	defer m.events.Close()
	return m.run(ctx)
}

func (m *chaosMember) run(ctx context.Context) (err error) {
	config := squall.SubgroupConfig{DeliverBatch: m.replica.deliver, Snapshot: m.replica.snapshot, Restore: m.replica.restore}
	if err = m.open(ctx, m.groupConfig(config, m.happened)); err != nil {
		return err
	}
	sending, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		m.quit() // no sender claims room in a group that closes
		err = errors.Join(err, m.close(ctx))
	}()
	go m.send(sending, m.sendLine)
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
func (m *chaosMember) obey(ctx context.Context, do order) {
	switch {
	case do.Stop:
		m.stop()
	case do.Finish != nil: // the parent may want to know more if that takes long
		go m.finish(ctx, func() bool { return m.replica.has(do.Finish) })
	case do.Dump:
		if err := m.group.Debug().Dump(m.events); err != nil {
			fmt.Fprintln(m.events, err)
		}
		m.say(subjectReport{Dumped: true})
	}
}

// happened writes down what happens, and tells the parent what it wants to know.
func (m *chaosMember) happened(e squall.Event) {
	fmt.Fprintf(m.events, "%s %T: %v\n", time.Now().Format("15:04:05.000000"), e, e)
	if e, ok := e.(squall.StateRestored); ok {
		m.say(subjectReport{Restored: &restored{e.Source, m.replica.restored(), e.Took + e.Behind}})
	}
	m.subject.happened(e)
}

func (m *chaosMember) sendLine(ctx context.Context, number uint64) error {
	claim, err := m.claim(ctx, number)
	if err != nil {
		return err
	}
	return claim.Commit()
}

// halted tells why this member is none any more. That is what it is here for, and no error of this
// process.
func (m *chaosMember) halted(reason error) error {
	m.quit()
	m.report(reason)
	return nil
}

// leave takes this member out of the group after everything that it sent is delivered. It sets no
// deadline of its own: a member that hangs delays it.
func (m *chaosMember) leave(ctx context.Context) error {
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
