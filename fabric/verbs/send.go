//go:build linux

package verbs

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/internal/mutant"
)

// The layout of a message.
const (
	headBytes = 8
	lineBytes = 8 + fabric.LineBytes
	mostLines = (messageBytes - headBytes) / lineBytes

	flagMore = 1 // more lines of the frame follow
	flagLast = 2 // the last message
)

// sender is the sending half of a link: the frame at hand, and what the device and the peer have
// taken. The counters wrap around.
//
//	granted ≥ sent            messages: receives that the peer posted ≥ messages posted (QP2)
//	posted ≥ completed        requests, at most the capacity of the pair apart
type sender struct {
	ranges []fabric.Range // of the frame, not posted yet
	lines  []byte         // of the frame, not posted yet
	store  []byte         // memory of lines
	at     []fabric.Range // memory of ranges

	granted, sent     uint32
	posted, completed uint32
	signalled         uint32 // value of posted after the last request that completes visibly
	last              bool   // the next message is the last one

	work  [maxWork]device.Work // of one call
	n     int
	again [receives]device.Receive // posted again with it
}

func (s *sender) busy() bool { return len(s.ranges) > 0 || len(s.lines) > 0 }

// frame takes everything that is pending. The lines are copied now, so that they do not cover bytes
// that are not in the frame.
func (s *sender) frame(p *fabric.Pending, own []byte) {
	s.at = append(s.at[:0], p.Ranges...)
	s.ranges, s.store = s.at, s.store[:0]
	for _, off := range p.Lines {
		s.store = binary.LittleEndian.AppendUint64(s.store, uint64(off))
		for w := 0; w < fabric.LineBytes; w += 8 {
			s.store = binary.LittleEndian.AppendUint64(s.store, atomic.LoadUint64(fabric.Word(own, off+w)))
		}
	}
	s.lines = s.store
	p.Taken(len(p.Ranges))
}

// credits is how many messages the peer has receives for.
func (s *sender) credits() int { return int(int32(s.granted - s.sent)) }

// free is how many requests the pair takes now.
func (s *sender) free() int {
	return min(requests-int(s.posted+uint32(s.n)-s.completed), maxWork-s.n)
}

// canSend reports whether a message may be sent that leaves some receives over.
func (s *sender) canSend(leave int) bool {
	if mutant.Enabled && mutant.On(mutant.NoCredits) {
		leave = -1 << 20
	}
	return s.free() > 0 && s.credits() > leave // QP2
}

// complete records that all requests up to a count are complete.
func (s *sender) complete(count uint32) error {
	delta := (count - s.completed) & countMask
	if delta == 0 || delta > s.posted-s.completed {
		return fmt.Errorf("%w: request %d completed, of [%d, %d]", device.ErrFailed, count, s.completed&countMask, s.posted&countMask)
	}
	s.completed += delta
	return nil
}

// signalledOutstanding reports whether a completion is still to come.
func (s *sender) signalledOutstanding() bool { return int32(s.signalled-s.completed) > 0 }

// post posts as much of the frame as the device and the peer take, in one call, and reports whether
// that was anything. A failure is kept in err.
func (l *Link) post() bool {
	s := &l.tx
	if mutant.Enabled && mutant.On(mutant.LineFirst) {
		l.addMessages()
	}
	for len(s.ranges) > 0 && s.free() > 0 {
		l.addWrite()
	}
	if len(s.ranges) == 0 { // QP1
		l.addMessages()
	}
	return s.n > 0 && l.ring()
}

// addWrite adds the next write of the frame.
func (l *Link) addWrite() {
	s := &l.tx
	r := &s.ranges[0]
	n := min(r.N, l.mostBytes)
	s.work[s.n] = device.Work{
		Kind: device.Write, Local: addressOf(l.own) + uint64(r.Off), LocalKey: l.ownKey, Bytes: uint32(n),
		Remote: l.remote.Address + uint64(r.Off-l.ownShape.ControlBytes), RemoteKey: l.remote.Key,
	}
	s.n++
	if r.Off, r.N = r.Off+n, r.N-n; r.N == 0 {
		s.ranges = s.ranges[1:]
	}
}

// addMessages adds messages with the lines of the frame.
func (l *Link) addMessages() {
	for len(l.tx.lines) > 0 && l.tx.canSend(1) {
		l.addMessage(min(len(l.tx.lines)/lineBytes, mostLines))
	}
}

// addMessage adds a message with the first lines of the frame. It reuses the memory of a message
// whose receive the peer has posted again. It also posts the used receives of this side again,
// because the message reports them (QP3).
func (l *Link) addMessage(lines int) {
	s := &l.tx
	at := int(s.sent % receives)
	m := l.stage[(receives+at)*messageBytes:][:headBytes+lines*lineBytes]
	copy(m[headBytes:], s.lines[:lines*lineBytes])
	s.lines = s.lines[lines*lineBytes:]
	flags := byte(0)
	if len(s.lines) > 0 {
		flags |= flagMore
	}
	if s.last {
		flags |= flagLast
	}
	m[2], m[3] = flags, 0
	binary.LittleEndian.PutUint16(m, uint16(lines))
	binary.LittleEndian.PutUint32(m[4:], l.rx.used+receives)
	s.work[s.n] = device.Work{
		Kind: device.Send, Local: l.stageAt.Address + uint64((receives+at)*messageBytes), LocalKey: l.stageAt.Key, Bytes: uint32(len(m)),
		Inline: len(m) <= l.inline,
	}
	s.n++
	s.sent++
}

// postMessage posts a message without lines that leaves some receives over, if it may be sent.
func (l *Link) postMessage(leave int) bool {
	if !l.tx.canSend(leave) {
		return false
	}
	l.addMessage(0)
	return l.ring()
}

// report sends a message without lines if the peer might wait for receives.
func (l *Link) report() bool {
	return l.rx.used-l.rx.posted >= receives/2 && l.postMessage(0)
}

// ring posts the requests to the device. The last one is signalled if enough others precede it.
func (l *Link) ring() bool {
	s := &l.tx
	work := s.work[:s.n]
	s.n = 0
	isMessage := work[len(work)-1].Kind == device.Send
	s.posted += uint32(len(work))
	end := &work[len(work)-1]
	if s.posted-s.signalled >= signalEvery || s.last {
		end.Signalled, s.signalled = true, s.posted
	}
	end.ID = requestID(l.id, s.posted)
	again := s.again[:0]
	for isMessage && l.rx.posted != l.rx.used {
		again = append(again, l.receive())
	}
	if err := l.pair.Post(again, work); err != nil {
		l.err = fmt.Errorf("%w: %w", device.ErrFailed, err)
		return false
	}
	return true
}

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }
