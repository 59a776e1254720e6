package copy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/rdmc/schedule"
)

// groupName is the same for all pushes; their keys differ.
const groupName = "squall copy"

// joinTime is how long the members of a push may need to find each other.
const joinTime = 30 * time.Second

// hearsay is a failure of another process.
type hearsay struct{ error }

func (h hearsay) Unwrap() error { return h.error }

var errInterrupted = errors.New("it was interrupted")

// session is one push at one receiver.
//
// Its life: greeted → offered → accepted, or refused → started → received → ready → placed → kept.
// Each step but the first is one thing that the pusher says; whatever goes wrong before kept leaves
// the directory as it was.
type session struct {
	root   *os.Root
	path   string // of the directory, to look up its disk
	token  []byte
	tls    *tls.Config
	port   *port.Port
	rack   string
	sync   bool
	begun  func(pieces []piece, entries []entry) // told when files begin to come
	told   func(pieces int)                      // told of their progress
	claim  func() bool                           // makes this the one push at a time
	talk   *talk
	heard  <-chan heard[call]
	offer  offer
	stage  *stage
	intake *intake
	node   *rdmc.Node
	failed chan error   // why the group did
	broken <-chan error // why a piece could not be written
	result Received
}

// serve plays a session to its end. The error says why nothing came of it.
func (s *session) serve(ctx context.Context, conn net.Conn) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	s.talk, err = welcome(conn, s.token, s.rack)
	stop()
	if err != nil {
		conn.Close()
		return err
	}
	s.heard = listen[call](ctx, s.talk)
	defer s.part()
	s.failed = make(chan error, 1)
	entries, err := s.offered(ctx)
	if err != nil {
		return err
	}
	if err := s.prepare(entries); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stage.close()) }()
	return s.receive(ctx)
}

// part ends the conversation.
func (s *session) part() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range s.heard { // what comes now does not matter
		}
	}()
	s.talk.partWays(read)
}

// next is what the pusher says next. A group or a disk that fails may come before.
func (s *session) next(ctx context.Context) (call, error) {
	for {
		select {
		case h, open := <-s.heard:
			if !open {
				return call{}, errGone
			}
			if h.err != nil {
				return call{}, fmt.Errorf("the pusher: %w", h.err)
			}
			if c := h.value; c.Quit != "" {
				return c, hearsay{fmt.Errorf("the pusher gave up: %s", c.Quit)}
			} else if c.Offer != nil || c.Entries != nil || c.Start != nil || c.Verify != nil || c.Place || c.Keep {
				return c, nil
			}
		case err := <-s.failed:
			return call{}, hearsay{err}
		case err := <-s.broken:
			return call{}, err
		case <-ctx.Done():
			return call{}, context.Cause(ctx)
		}
	}
}

// offered hears what is to be pushed.
func (s *session) offered(ctx context.Context) ([]entry, error) {
	c, err := s.next(ctx)
	switch {
	case err != nil:
		return nil, err
	case c.Offer == nil || c.Offer.Entries < 1 || c.Offer.Entries > maxEntries:
		return nil, fmt.Errorf("%w: no offer", errFrame)
	}
	s.offer = *c.Offer
	var entries []entry
	for len(entries) < s.offer.Entries {
		c, err := s.next(ctx)
		if err != nil {
			return nil, err
		}
		if len(c.Entries) == 0 || len(c.Entries) > s.offer.Entries-len(entries) {
			return nil, fmt.Errorf("%w: %d entries after %d of %d", errFrame, len(c.Entries), len(entries), s.offer.Entries)
		}
		entries = append(entries, c.Entries...)
	}
	return entries, nil
}

// refusal is why a receiver does not take a push.
type refusal struct{ why []string }

func (r *refusal) Error() string {
	text := "refused: " + r.why[0]
	if n := len(r.why) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

func (s *session) refuse(why ...string) error {
	return errors.Join(&refusal{why}, s.talk.say(answer{Refused: why}))
}

// prepare judges the entries and makes room for them.
func (s *session) prepare(entries []entry) error {
	total, err := checkTree(entries)
	if err != nil {
		return s.refuse(err.Error())
	}
	if !s.claim() {
		return s.refuse("it is busy with another push")
	}
	if left, known := room(s.path); known && total > left {
		return s.refuse(fmt.Sprintf("no space left on the disk: %s to receive, and %s left", size(total), size(left)))
	}
	if s.stage, err = newStage(s.root, entries, s.offer.Force, s.sync); err != nil {
		return s.refuse(reason(err))
	}
	why := s.stage.refusals()
	if len(why) == 0 {
		if err := s.stage.reserve(); err != nil {
			why = []string{reason(err)}
		}
	}
	if len(why) > 0 {
		return errors.Join(s.refuse(why...), s.stage.close())
	}
	s.result = Received{Tally: tallyOf(entries, total)}
	return nil
}

// receive is what follows once all is prepared. The error is told to the pusher.
func (s *session) receive(ctx context.Context) (err error) {
	self := rdmc.Peer{ID: order.NodeID(s.offer.ID), Addr: s.port.Addr(), Rack: s.rack}
	if s.node, err = rdmc.NewNode(rdmc.NodeConfig{Self: self, Port: s.port, TLS: s.tls}); err != nil {
		return s.refuse(err.Error())
	}
	s.intake = newIntake(s.stage, cut(s.stage.entries), s.progress)
	s.broken = s.intake.broken
	err = s.transfer(ctx)
	// First the node, which writes into what is mapped.
	closed := s.node.Close()
	if ended := s.intake.end(); err == nil {
		err = errors.Join(closed, ended)
	}
	if err == nil {
		err = s.finish(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = errInterrupted
		}
		_ = s.talk.say(answer{Failed: err.Error(), Hearsay: errors.As(err, &hearsay{}) || errors.Is(err, errGone)})
	}
	return err
}

func (s *session) progress(pieces int) {
	s.told(pieces)
	_ = s.talk.say(answer{Pieces: pieces}) // the reader will find out
}

// transfer takes all messages of the group, and compares the digests.
func (s *session) transfer(ctx context.Context) error {
	go s.intake.work()
	if err := s.talk.say(answer{Accepted: true}); err != nil {
		return err
	}
	c, err := s.next(ctx)
	if err != nil {
		return err
	}
	if c.Start == nil {
		return fmt.Errorf("%w: no start", errFrame)
	}
	s.begun(s.intake.pieces, s.stage.entries)
	s.result.started = time.Now()
	var group *rdmc.Group
	if len(s.intake.pieces) > 0 {
		if group, err = s.join(ctx, c.Start); err != nil {
			return hearsay{err}
		}
		defer group.Discard()
	}
	if c, err = s.next(ctx); err != nil {
		return err
	}
	if c.Verify == nil {
		return fmt.Errorf("%w: nothing to verify", errFrame)
	}
	if group != nil {
		if err := group.Close(ctx); err != nil {
			return hearsay{err}
		}
	}
	<-s.intake.ended
	return errors.Join(s.intake.err, s.intake.verify(c.Verify))
}

// join opens the group that the pusher describes.
func (s *session) join(ctx context.Context, st *start) (*rdmc.Group, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	return s.node.Create(ctx, rdmc.GroupConfig{
		Name: groupName, Key: st.Key, Members: peers(st.Members), Algorithm: schedule.Algorithm(st.Algorithm), BlockBytes: st.Block,
		Incoming: s.intake.incoming, Completed: s.intake.completed,
		Failed: func(err error) { s.failed <- err },
	})
}

// peers are the members as the group knows them.
func peers(members []member) (all []rdmc.Peer) {
	for _, m := range members {
		all = append(all, rdmc.Peer{ID: order.NodeID(m.ID), Addr: m.Addr, Rack: m.Rack})
	}
	return all
}

// finish puts the files in their places, when the pusher knows that all receivers have all.
func (s *session) finish(ctx context.Context) error {
	if err := s.stage.complete(); err != nil {
		return err
	}
	if err := s.talk.say(answer{Ready: true}); err != nil {
		return err
	}
	if c, err := s.next(ctx); err != nil {
		return err
	} else if !c.Place {
		return fmt.Errorf("%w: ready, and not told to place", errFrame)
	}
	if err := s.stage.place(); err != nil {
		return err
	}
	err := s.talk.say(answer{Placed: true})
	var c call
	if err == nil {
		c, err = s.next(ctx)
	}
	if err == nil && !c.Keep {
		err = fmt.Errorf("%w: placed, and not told to keep", errFrame)
	}
	if err != nil {
		return errors.Join(err, s.stage.takeBack())
	}
	s.result.Seconds = time.Since(s.result.started).Seconds()
	if err := s.stage.settle(); err != nil {
		return err
	}
	_ = s.talk.say(answer{Kept: true}) // it is kept, whether the pusher hears of it or not
	return nil
}
