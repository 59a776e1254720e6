package copy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/rdmc/schedule"
)

// groupName is the same for all pushes; their keys differ.
const groupName = "squall copy"

// joinTime is how long the members of a push may need to find each other.
const joinTime = 30 * time.Second

// indirect is a failure of another process.
type indirect struct{ error }

func (i indirect) Unwrap() error { return i.error }

var errInterrupted = errors.New("it was interrupted")

// session is one push at one receiver.
//
// Its life: greeted → offered → accepted, or refused → started → received → ready → placed → kept.
// Each step but the first is one request of the pusher; whatever goes wrong before kept leaves
// the directory as it was.
type session struct {
	*server
	conn     *conn
	requests chan request
	fail     context.CancelCauseFunc // ends what the session does, with the reason
	offer    offer
	claimed  bool
	stage    *stage
	bar      *show.Progress
	result   Received
}

// run plays a session to its end. The error says why nothing came of it.
func (s *session) run(ctx context.Context, c net.Conn) (err error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	s.conn, err = welcome(c, s.who.token, s.o.rack)
	stop()
	if err != nil {
		c.Close()
		return err
	}
	s.requests = make(chan request)
	own, fail := context.WithCancelCause(ctx)
	s.fail = fail
	var reading sync.WaitGroup
	reading.Go(func() { s.read(own) })
	defer func() {
		fail(nil)
		s.conn.HangUp(hangUpTime)
		reading.Wait()
		s.conn.close()
	}()
	entries, err := s.offered(own)
	if err == nil {
		err = s.prepare(entries)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stage.close()) }()
	if err = s.receive(own); err != nil {
		if ctx.Err() != nil {
			err = errInterrupted
		}
		_ = s.conn.send(reply{Failed: err.Error(), Indirect: errors.As(err, &indirect{}) || errors.Is(err, errGone)})
	}
	return err
}

// read reads requests until the connection ends. When the session is over, nothing waits for them.
func (s *session) read(ctx context.Context) {
	for {
		var q request
		switch err := s.conn.receive(&q); {
		case err != nil:
			s.fail(fmt.Errorf("the pusher: %w", err))
			return
		case q.Quit != "":
			s.fail(indirect{fmt.Errorf("the pusher gave up: %s", q.Quit)})
			continue
		}
		select {
		case s.requests <- q:
		case <-ctx.Done():
		}
	}
}

// next is the next request, unless something failed before it.
func (s *session) next(ctx context.Context) (request, error) {
	select {
	case q := <-s.requests:
		return q, nil
	case <-ctx.Done():
		return request{}, context.Cause(ctx)
	}
}

// done answers a request, and waits for the next one.
func (s *session) done(ctx context.Context) (request, error) {
	if err := s.conn.send(reply{}); err != nil {
		return request{}, err
	}
	return s.next(ctx)
}

// offered receives what is to be pushed.
func (s *session) offered(ctx context.Context) ([]entry, error) {
	r, err := s.next(ctx)
	switch {
	case err != nil:
		return nil, err
	case r.Offer == nil || r.Offer.Entries < 1 || r.Offer.Entries > maxEntries:
		return nil, fmt.Errorf("%w: no offer", errFrame)
	}
	s.offer = *r.Offer
	var entries []entry
	for len(entries) < s.offer.Entries {
		r, err := s.next(ctx)
		if err != nil {
			return nil, err
		}
		if len(r.Entries) == 0 || len(r.Entries) > s.offer.Entries-len(entries) {
			return nil, fmt.Errorf("%w: %d entries after %d of %d", errFrame, len(r.Entries), len(entries), s.offer.Entries)
		}
		entries = append(entries, r.Entries...)
	}
	return entries, nil
}

// refuse tells the pusher why this receiver does not take the push.
func (s *session) refuse(why ...string) error {
	text := "refused: " + why[0]
	if n := len(why) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return errors.Join(errors.New(text), s.conn.send(reply{Refused: why}))
}

// prepare judges the entries and makes the stage.
func (s *session) prepare(entries []entry) error {
	total, err := checkTree(entries)
	if err != nil {
		return s.refuse(err.Error())
	}
	if s.claimed = s.busy.TryLock(); !s.claimed {
		return s.refuse("it is busy with another push")
	}
	if left, known := diskSpace(s.path); known && total > left {
		return s.refuse(fmt.Sprintf("no space left on the disk: %s to receive, and %s left", show.Bytes(total), show.Bytes(left)))
	}
	if s.stage, err = newStage(s.root, entries, s.offer.Force, s.o.sync); err != nil {
		return s.refuse(show.Reason(err))
	}
	if why := s.stage.refusals(); len(why) > 0 {
		return errors.Join(s.refuse(why...), s.stage.close())
	}
	s.result = Received{Tally: tallyOf(entries, total)}
	return nil
}

// receive is what follows once all is prepared.
func (s *session) receive(ctx context.Context) error {
	self := rdmc.Peer{ID: order.NodeID(s.offer.ID), Addr: s.port.Addr(), Rack: s.o.rack}
	node, err := rdmc.Open(ctx, rdmc.Config{Self: self, Port: s.port, TLS: s.who.tls})
	if err != nil {
		return s.refuse(err.Error())
	}
	err = s.transfer(ctx, node)
	if err = cmp.Or(err, node.Close()); err != nil {
		return err
	}
	return s.finish(ctx)
}

// transfer takes all messages of the group, and compares the digest.
func (s *session) transfer(ctx context.Context, node *rdmc.Node) error {
	q, err := s.done(ctx)
	if err != nil {
		return err
	}
	if q.Start == nil {
		return fmt.Errorf("%w: no start", errFrame)
	}
	if s.result.started = time.Now(); !s.o.quiet {
		s.bar = newProgress(s.errs, "receiving", s.result.Bytes)
	}
	a := newArchive(ctx, s.bar.Set)
	group, err := s.join(ctx, node, q.Start, a)
	if err != nil {
		return err
	}
	defer group.Discard()
	if err := s.stage.extract(a); err != nil {
		return err
	}
	if q, err = s.next(ctx); err != nil {
		return err
	}
	if q.Verify == nil {
		return fmt.Errorf("%w: nothing to verify", errFrame)
	}
	if err := group.Close(ctx); err != nil {
		return indirect{err}
	}
	return a.verify(q.Verify)
}

// join opens the group that the pusher describes.
func (s *session) join(ctx context.Context, node *rdmc.Node, st *start, a *archive) (*rdmc.Group, error) {
	joining, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	group, err := node.Open(joining, rdmc.GroupConfig{
		Name: groupName, Key: st.Key, Members: st.peers(), Algorithm: schedule.Algorithm(st.Algorithm), BlockBytes: st.Block,
		Incoming: a.incoming, Completed: a.completed, Failed: func(err error) { s.fail(indirect{err}) },
	})
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), error(indirect{err}))
	}
	return group, nil
}

// finish puts the files in their places, when the pusher knows that all receivers have all.
func (s *session) finish(ctx context.Context) error {
	q, err := s.done(ctx)
	if err != nil {
		return err
	}
	if !q.Place {
		return fmt.Errorf("%w: ready, and not told to place", errFrame)
	}
	if err := s.stage.place(); err != nil {
		return err
	}
	if q, err = s.done(ctx); err == nil && !q.Keep {
		err = fmt.Errorf("%w: placed, and not told to keep", errFrame)
	}
	if err != nil {
		return errors.Join(err, s.stage.rollBack())
	}
	s.result.Seconds = time.Since(s.result.started).Seconds()
	if err := s.stage.keep(); err != nil {
		return err
	}
	_ = s.conn.send(reply{}) // it is kept, whether the pusher learns of it or not
	return nil
}
