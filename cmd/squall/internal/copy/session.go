package copy

import (
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
	lost     error // why there are no more requests; then requests is closed
	offer    offer
	claimed  bool
	stage    *stage
	node     *rdmc.Node
	bar      *show.Progress
	result   Received

	archive    *messageReader
	endArchive func()        // no message will come any more
	extracted  chan struct{} // closed when the archive is extracted, or could not be
	extractErr error         // why; then extracted is closed
	failed     chan error    // gets why the group or the extraction failed
}

// run plays a session to its end. The error says why nothing came of it.
func (s *session) run(ctx context.Context, c net.Conn) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	s.conn, err = welcome(c, s.who.token, s.o.rack)
	stop()
	if err != nil {
		c.Close()
		return err
	}
	s.requests, s.failed = make(chan request), make(chan error, 2)
	go s.read(ctx)
	defer s.hangUp()
	entries, err := s.offered(ctx)
	if err == nil {
		err = s.prepare(entries)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stage.close()) }()
	if err = s.receive(ctx); err != nil {
		if ctx.Err() != nil {
			err = errInterrupted
		}
		_ = s.conn.send(reply{Failed: err.Error(), Indirect: errors.As(err, &indirect{}) || errors.Is(err, errGone)})
	}
	return err
}

// read reads requests until the connection ends. After the session nothing waits for them.
func (s *session) read(ctx context.Context) {
	defer close(s.requests)
	for {
		var r request
		if s.lost = s.conn.receive(&r); s.lost != nil {
			return
		}
		select {
		case s.requests <- r:
		case <-ctx.Done():
		}
	}
}

// hangUp ends the connection.
func (s *session) hangUp() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range s.requests { // what comes now does not matter
		}
	}()
	s.conn.hangUp(read)
}

// next is the next request. A group or a disk that fails may come before.
func (s *session) next(ctx context.Context) (request, error) {
	for {
		select {
		case r, open := <-s.requests:
			switch {
			case !open:
				return r, fmt.Errorf("the pusher: %w", s.lost)
			case r.Quit != "":
				return r, indirect{fmt.Errorf("the pusher gave up: %s", r.Quit)}
			case r.Offer != nil || r.Entries != nil || r.Start != nil || r.Verify != nil || r.Place || r.Keep:
				return r, nil
			}
		case err := <-s.failed:
			return request{}, err
		case <-ctx.Done():
			return request{}, context.Cause(ctx)
		}
	}
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
	if s.claimed = s.claim(); !s.claimed {
		return s.refuse("it is busy with another push")
	}
	if left, known := diskSpace(s.path); known && total > left {
		return s.refuse(fmt.Sprintf("no space left on the disk: %s to receive, and %s left", size(total), size(left)))
	}
	if s.stage, err = newStage(s.root, entries, s.offer.Force, s.o.sync); err != nil {
		return s.refuse(reason(err))
	}
	if why := s.stage.refusals(); len(why) > 0 {
		return errors.Join(s.refuse(why...), s.stage.close())
	}
	s.result = Received{Tally: tallyOf(entries, total)}
	return nil
}

// receive is what follows once all is prepared.
func (s *session) receive(ctx context.Context) (err error) {
	self := rdmc.Peer{ID: order.NodeID(s.offer.ID), Addr: s.port.Addr(), Rack: s.o.rack}
	if s.node, err = rdmc.Open(ctx, rdmc.Config{Self: self, Port: s.port, TLS: s.who.tls}); err != nil {
		return s.refuse(err.Error())
	}
	s.archive, s.extracted = newMessageReader(s.progress), make(chan struct{})
	s.endArchive = sync.OnceFunc(func() { close(s.archive.queue) })
	go func() {
		defer close(s.extracted)
		if s.extractErr = s.stage.extract(s.archive); s.extractErr != nil {
			s.failed <- s.extractErr
		}
	}()
	err = s.transfer(ctx)
	closed := s.node.Close() // first: it sends messages to the archive
	s.endArchive()
	<-s.extracted
	if err == nil {
		err = closed
	}
	if err == nil {
		err = s.finish(ctx)
	}
	return err
}

func (s *session) progress(messages int) {
	s.bar.Set(min(s.result.Bytes, int64(messages)*messageBytes))
	_ = s.conn.send(reply{Received: messages}) // the reader will find out
}

// transfer takes all messages of the group, and compares the digest.
func (s *session) transfer(ctx context.Context) error {
	if err := s.conn.send(reply{Accepted: true}); err != nil {
		return err
	}
	r, err := s.next(ctx)
	if err != nil {
		return err
	}
	if r.Start == nil {
		return fmt.Errorf("%w: no start", errFrame)
	}
	if s.result.started = time.Now(); !s.o.quiet {
		s.bar = newProgress(s.errs, "receiving", s.result.Bytes)
	}
	group, err := s.join(ctx, r.Start)
	if err != nil {
		return indirect{err}
	}
	defer group.Discard()
	if r, err = s.next(ctx); err != nil {
		return err
	}
	if r.Verify == nil {
		return fmt.Errorf("%w: nothing to verify", errFrame)
	}
	if err := group.Close(ctx); err != nil {
		return indirect{err}
	}
	s.endArchive()
	<-s.extracted
	return errors.Join(s.extractErr, s.archive.verify(r.Verify))
}

// join opens the group that the pusher describes.
func (s *session) join(ctx context.Context, st *start) (*rdmc.Group, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	return s.node.Open(ctx, rdmc.GroupConfig{
		Name: groupName, Key: st.Key, Members: st.peers(), Algorithm: schedule.Algorithm(st.Algorithm), BlockBytes: st.Block,
		Incoming: s.archive.incoming, Completed: s.archive.completed,
		Failed: func(err error) { s.failed <- indirect{err} },
	})
}

// finish puts the files in their places, when the pusher knows that all receivers have all.
func (s *session) finish(ctx context.Context) error {
	if err := s.conn.send(reply{Ready: true}); err != nil {
		return err
	}
	if r, err := s.next(ctx); err != nil {
		return err
	} else if !r.Place {
		return fmt.Errorf("%w: ready, and not told to place", errFrame)
	}
	if err := s.stage.place(); err != nil {
		return err
	}
	err := s.conn.send(reply{Placed: true})
	var r request
	if err == nil {
		r, err = s.next(ctx)
	}
	if err == nil && !r.Keep {
		err = fmt.Errorf("%w: placed, and not told to keep", errFrame)
	}
	if err != nil {
		return errors.Join(err, s.stage.rollBack())
	}
	s.result.Seconds = time.Since(s.result.started).Seconds()
	if err := s.stage.keep(); err != nil {
		return err
	}
	_ = s.conn.send(reply{Kept: true}) // it is kept, whether the pusher learns of it or not
	return nil
}
