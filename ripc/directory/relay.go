package directory

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/ripc"
)

// maxRelayed is how many requests of a subgroup wait to be delivered at a time.
const maxRelayed = 256

// Relay brings messages of processes outside of the group into the order of a subgroup of this
// process, until ctx or the group ends. They send to ToSubgroup(name), and reach the nearest member
// that relays. A message is sent to the subgroup once it is here; a call is answered when this
// process has delivered it, with its version (Relayed). A call that ends with a GoneError may have
// been delivered, or not.
func (d *Directory) Relay(ctx context.Context, e *ripc.Endpoint, to *squall.Subgroup) error {
	s, err := e.RegisterShared(ctx, ToSubgroup(to.Name()))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	running.Go(func() { closeWith(ctx, d.group, cancel, s) })
	free := make(chan struct{}, maxRelayed)
	for {
		m, err := s.Receive(context.Background())
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		future, err := to.SendFuture(ctx, m.Data)
		if err != nil {
			_ = m.Refuse(err.Error())
			m.Release()
			if errors.Is(err, squall.ErrNotSender) || errors.Is(err, squall.ErrNotProvisioned) || errors.Is(err, squall.ErrTooLarge) {
				continue // the fault of this message, or of this moment
			}
			return err
		}
		if !m.IsRequest() {
			m.Release()
			continue
		}
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			defer m.Release()
			replyVersion(ctx, &m, future)
		})
	}
}

// replyVersion answers a call when its message is delivered.
func replyVersion(ctx context.Context, m *ripc.Message, future *squall.Future) {
	version, err := future.Wait(ctx)
	if err != nil {
		_ = m.Refuse(err.Error())
		return
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(version.View))
	_ = m.Reply(binary.BigEndian.AppendUint64(b, uint64(version.Seq)))
}

// Relayed is the version at which a message was delivered, from the reply to a call to a subgroup.
func Relayed(reply []byte) (v squall.Version, ok bool) {
	if len(reply) != 16 {
		return v, false
	}
	return squall.Version{View: squall.ViewID(binary.BigEndian.Uint64(reply)), Seq: squall.Seq(binary.BigEndian.Uint64(reply[8:]))}, true
}
