package tcp

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
)

var fuzzShape = fabric.RowShape{ControlBytes: 4 * fabric.LineBytes, RowBytes: 4*fabric.LineBytes + 16<<10}

// pipe is a socket of bytes that hands out at most so many at a time as a program of cuts says.
type pipe struct {
	data []byte
	cuts []byte
	next int
}

func (p *pipe) read(into [][]byte) (n int, err error) {
	limit := len(p.data)
	if len(p.cuts) > 0 {
		limit = 1 + int(p.cuts[p.next%len(p.cuts)])*int(p.cuts[p.next%len(p.cuts)])/8
		p.next++
	}
	for _, b := range into {
		k := copy(b[:min(len(b), limit-n)], p.data)
		p.data, n = p.data[k:], n+k
	}
	return n, nil
}

func (p *pipe) write(from [][]byte) (n int, err error) {
	for _, b := range from {
		n += len(b)
	}
	limit := n
	if len(p.cuts) > 0 {
		limit = min(n, int(p.cuts[p.next%len(p.cuts)])*16)
		p.next++
	}
	n = 0
	for _, b := range from {
		k := min(len(b), limit-n)
		p.data, n = append(p.data, b[:k]...), n+k
	}
	return n, nil
}

func (p *pipe) hangUp()      {}
func (p *pipe) close() error { return nil }

func linkOn(p *pipe) (l *Link, release func()) {
	own, freeOwn, err := fabric.NewMemory(fuzzShape.RowBytes)
	if err != nil {
		panic(err)
	}
	replica, free, err := fabric.NewMemory(fuzzShape.RowBytes)
	if err != nil {
		panic(err)
	}
	cfg := Config{View: hostileView, Own: own, OwnShape: fuzzShape, PeerShape: fuzzShape}
	l = &Link{cfg: cfg, sock: p, replica: replica, free: free, pending: fabric.NewPending(fuzzShape.ControlBytes)}
	l.rx.init(replica, cfg)
	return l, func() { free(); freeOwn() }
}

// receive feeds a stream to a new link and returns the replica and the error it ended with.
func receive(stream, cuts []byte) ([]byte, error) {
	l, release := linkOn(&pipe{data: stream, cuts: cuts})
	defer release()
	for {
		work, err := l.Poll()
		if err != nil || !work {
			return bytes.Clone(l.replica), err
		}
	}
}

// Arbitrary bytes never panic, are either taken or a violation, and how they are cut makes no
// difference.
func FuzzReceiver(f *testing.F) {
	f.Add(frame{view: hostileView, ranges: at(256, 3000), lines: []uint64{64}, fill: 1}.encode(), []byte{1, 9, 200})
	f.Add(append(frame{view: 3, ranges: at(9999, 30), lines: []uint64{1}}.encode(), frame{view: hostileView, lines: []uint64{0, 64}, fill: 2}.encode()...), []byte{3})
	f.Add(frame{view: hostileView, ranges: at(256, 8), lines: []uint64{63}}.encode(), []byte{0})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		whole, wholeErr := receive(bytes.Clone(stream), nil)
		cut, cutErr := receive(bytes.Clone(stream), cuts)
		if !bytes.Equal(whole, cut) {
			t.Error("the replica depends on how the stream is cut")
		}
		if (wholeErr == nil) != (cutErr == nil) || wholeErr != nil && wholeErr.Error() != cutErr.Error() {
			t.Errorf("the error depends on how the stream is cut: %v; %v", wholeErr, cutErr)
		}
		if wholeErr != nil && !errors.Is(wholeErr, fabric.ErrViolation) {
			t.Errorf("the receiver says %v", wholeErr)
		}
	})
}

// roundTrip pushes what a program says and compares the replica with the row where something was
// pushed. A program is operations of three bytes: what, where, how much.
func roundTrip(t testing.TB, program, cuts []byte) {
	p := &pipe{cuts: cuts}
	tx, releaseTx := linkOn(p)
	defer releaseTx()
	rx, releaseRx := linkOn(p)
	defer releaseRx()
	pushed := make([]bool, fuzzShape.RowBytes)
	random := rand.New(rand.NewPCG(1, uint64(len(program))))
	check := func(when string) {
		for off := 0; off < fuzzShape.ControlBytes; off += 8 { // a word is as it was at some push; at the end, at the last
			if v := *fabric.Word(rx.replica, off); v > *fabric.Word(tx.cfg.Own, off) {
				t.Fatalf("%s: word %d is %d, ahead of the row's %d", when, off/8, v, *fabric.Word(tx.cfg.Own, off))
			}
		}
	}
	for ; len(program) >= 3; program = program[3:] {
		what, where, much := program[0]%4, int(program[1]), int(program[2])
		switch what {
		case 0, 1: // bytes, each written once, as in a ring
			off := fuzzShape.ControlBytes + where*64
			n := min(1+much*8, fuzzShape.RowBytes-off)
			for k := off; k < off+n; k++ {
				if !pushed[k] {
					tx.cfg.Own[k], pushed[k] = byte(random.Uint32()), true
				}
			}
			tx.Push(off, n)
		case 2:
			line := where % 4 * fabric.LineBytes
			for w := 0; w < fabric.LineBytes; w += 8 {
				*fabric.Word(tx.cfg.Own, line+w) += uint64(much)
				for k := range 8 {
					pushed[line+w+k] = true
				}
			}
			tx.PushLine(line)
		case 3:
			if _, err := tx.Flush(); err != nil {
				t.Fatal(err)
			}
			if _, err := rx.Poll(); err != nil {
				t.Fatal(err)
			}
			check("on the way")
		}
	}
	p.cuts = nil
	tx.Flush()
	for {
		work, err := rx.Poll()
		if err != nil {
			t.Fatal(err)
		}
		if !work {
			break
		}
	}
	for k, there := range pushed {
		if there && rx.replica[k] != tx.cfg.Own[k] {
			t.Fatalf("byte %d is %#x, was pushed as %#x", k, rx.replica[k], tx.cfg.Own[k])
		}
		if !there && rx.replica[k] != 0 {
			t.Fatalf("byte %d is %#x, and was never pushed", k, rx.replica[k])
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{0, 1, 9, 2, 1, 1, 3, 0, 0, 0, 200, 200, 2, 3, 7, 3, 0, 0}, []byte{4, 1, 30})
	f.Fuzz(func(t *testing.T, program, cuts []byte) { roundTrip(t, program[:min(len(program), 3000)], cuts) })
}

func TestWhatIsPushedArrivesHoweverItIsCut(t *testing.T) {
	t.Parallel()
	seed := testutil.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	programs := 300
	if testing.Short() {
		programs = 50
	}
	for range programs {
		program, cuts := make([]byte, 3*random.IntN(1200)), make([]byte, random.IntN(20))
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		for i := range cuts {
			cuts[i] = byte(random.Uint32())
		}
		roundTrip(t, program, cuts)
	}
}
