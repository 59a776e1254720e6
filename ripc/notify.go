package ripc

import (
	"context"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// notices are those that a service receives. The endpoint's mu guards them.
type notices struct {
	notify   func(from ID, key uint64, data []byte)
	boards   []board // with notices
	notifier *waiter // of the goroutine that calls notify
}

// board is where the notices of one channel wait.
type board struct {
	peer *peer
	in   *inbound
}

// Notify tells a service about something that it need not wait for. A notice that the service has
// not taken is replaced by a newer one with the same key: it sees the latest at least, and perhaps
// no other. Notify waits only while too many notices with other keys are not taken.
func (s *Service) Notify(ctx context.Context, to *Remote, key uint64, parts ...[]byte) error {
	e := s.e
	e.lock()
	if to.board == nil {
		to.board = newRemote(s, to.id)
		to.board.notices, to.board.peer, to.board.number = true, to.peer, to.number
	}
	board := to.board
	e.unlock()
	return board.send(ctx, pair.Notice, key, parts)
}

// OnNotify has f called for notices, one at a time, on a goroutine of the endpoint. data is valid
// until f returns. f is set once.
func (s *Service) OnNotify(f func(from ID, key uint64, data []byte)) {
	e := s.e
	e.lock()
	defer e.unlock()
	if s.notices.notify != nil || s.closed || e.closed {
		return
	}
	s.notices.notify = f
	s.notices.notifier = newWaiter()
	s.notices.notifier.goal, s.notices.notifier.service, s.notices.notifier.seat.Yields = goalNotice, s, true
	e.background.Go(s.callBack)
}

// noticed takes in a notice. One that it replaces counts as received.
func (s *Service) noticed(p *peer, in *inbound, f *pair.Frame) {
	if old := in.board.Add(f); old != nil {
		p.rx.Received(old)
		p.free(old)
	}
	if !in.listed {
		in.listed = true
		s.notices.boards = append(s.notices.boards, board{p, in})
	}
	if s.notices.notifier != nil {
		s.e.rouse(s.notices.notifier)
	}
}

// callBack calls the application for one notice after the other.
func (s *Service) callBack() {
	e := s.e
	e.lock()
	defer e.unlock()
	for {
		if err := e.wait(e.ctx, s.notices.notifier); err != nil || s.closed {
			return
		}
		b := s.notices.boards[0]
		f := b.in.board.Take()
		if f == nil {
			b.in.listed = false
			s.notices.boards = append(s.notices.boards[:0], s.notices.boards[1:]...)
			continue
		}
		b.peer.rx.Received(f)
		if s.copies {
			b.peer.rx.Copy(f)
		}
		b.peer.tell()
		b.peer.lastCount(f.Channel)
		from, key, data := b.in.from, f.ID, f.Data
		e.unlock()
		s.notices.notify(from, key, data)
		e.lock()
		b.peer.free(f)
	}
}
