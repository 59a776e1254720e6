package stream

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/fabric"
)

// frame is a frame on its way.
type frame struct {
	id   uint64
	data []byte
}

// side is one of two processes: one opens streams, and the other accepts them.
type side struct {
	table   *Table
	open    []*flow // that the application has
	out     []frame // on their way to the other side
	refused int
}

// flow is a stream with what the test knows of it.
type flow struct {
	*Stream
	written []byte
	read    []byte
	waits   []byte // memory of a reader that waits
	twin    *flow
	ended   bool // by this side, in order
	closed  bool
}

// world is two sides, stepped at random from a seed.
type world struct {
	*rand.Rand
	t     *testing.T
	sides [2]*side
	flows map[uint64][2]*flow
}

const (
	worldStreams = 4
	window       = 64 << 10
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, flows: map[uint64][2]*flow{}}
	w.sides = [2]*side{{table: NewTable(0, window)}, {table: NewTable(worldStreams, window)}}
	return w
}

func (s *side) send(id uint64, data []byte) { s.out = append(s.out, frame{id, data}) }

func limitBytes(limit uint64) []byte {
	var b [LimitBytes]byte
	PutLimit(&b, limit)
	return b[:]
}

func (w *world) step() {
	i := w.IntN(2)
	s := w.sides[i]
	switch w.IntN(12) {
	case 0:
		if i == 0 {
			core, limit := s.table.Open(nil)
			f := &flow{Stream: core}
			core.User = f
			s.open = append(s.open, f)
			w.flows[core.Number] = [2]*flow{f, nil}
			s.send(core.ID(Open), limitBytes(limit))
		}
	case 1, 2, 3, 4, 5:
		w.carry(i)
	default:
		if len(s.open) > 0 {
			w.use(s, s.open[w.IntN(len(s.open))])
		}
	}
}

// use has an application do something with a stream.
func (w *world) use(s *side, f *flow) {
	switch w.IntN(10) {
	case 0, 1, 2:
		n := f.Sendable(1 + w.IntN(window/4))
		if n == 0 {
			return
		}
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(w.Uint32())
		}
		f.Sent(n)
		f.written = append(f.written, data...)
		s.send(f.ID(Data), data)
	case 3, 4, 5, 6:
		n := 1 + w.IntN(window)
		if half := int(f.given) - window/2 - len(f.read); half > 0 && w.IntN(2) == 0 {
			n = half // the next limit follows after these bytes
		}
		w.read(s, f, n)
	case 7:
		if w.grant(s, f); f.waits == nil && !f.Readable() {
			f.waits = make([]byte, 1+w.IntN(window))
			f.Expect(f.waits)
		}
	case 8:
		if w.IntN(3) == 0 && f.EndWriting() {
			f.ended = true
			s.send(f.ID(End), nil)
		}
	case 9:
		if w.IntN(3) == 0 {
			w.close(s, f)
		}
	}
}

// read takes what is there, of a stream that waits or not.
func (w *world) read(s *side, f *flow, n int) {
	if f.waits != nil {
		f.read = append(f.read, f.waits[:f.Collect()]...)
		f.waits = nil
	}
	p := make([]byte, n)
	f.read = append(f.read, p[:f.Read(p)]...)
	w.grant(s, f)
	w.check(f)
}

// grant gives the other side a new limit. It is at most a window beyond what was read (RS4): what a
// reader that waits has and did not collect is not read. The other side lacks less than half of a
// window.
func (w *world) grant(s *side, f *flow) {
	limit, news := f.Grant()
	if most := uint64(len(f.read)) + window; limit > most {
		w.t.Fatalf("RS4: stream %d has the limit %d, at most %d", f.Number, limit, most)
	} else if !f.gotEnd && !f.reset && !f.closed && most-limit >= window/2 {
		w.t.Fatalf("stream %d has the limit %d, and may have %d", f.Number, limit, most)
	}
	if news {
		s.send(f.ID(Credit), limitBytes(limit))
	}
}

// check compares what was read with what the other side wrote (RS2), and the end with how it ended
// (RS6).
func (w *world) check(f *flow) {
	if _, reset := f.WasReset(); (reset || f.AtEnd() || f.closed) && !f.Readable() {
		w.t.Fatalf("stream %d is over, and its reader waits", f.Number)
	}
	if f.twin == nil {
		return
	}
	if !bytes.HasPrefix(f.twin.written, f.read) {
		w.t.Fatalf("RS2: stream %d: %d bytes were read that are not the first of %d", f.Number, len(f.read), len(f.twin.written))
	}
	if f.AtEnd() && (len(f.read) != len(f.twin.written) || !f.twin.ended) {
		w.t.Fatalf("RS6: stream %d is at its end after %d of %d bytes", f.Number, len(f.read), len(f.twin.written))
	}
}

func (w *world) close(s *side, f *flow) {
	for i, o := range s.open {
		if o == f {
			s.open = append(s.open[:i], s.open[i+1:]...)
			break
		}
	}
	switch tell := s.table.Close(f.Stream); tell {
	case End:
		f.ended = true
		s.send(f.ID(End), nil)
	case Reset:
		s.send(f.ID(Reset), []byte("closed"))
	}
	f.closed = true
}

// carry brings the next frame of a side to the other one.
func (w *world) carry(i int) {
	from, to := w.sides[i], w.sides[1-i]
	if len(from.out) == 0 {
		return
	}
	f := from.out[0]
	from.out = from.out[1:]
	s, what, err := to.table.Take(f.id, f.data)
	if err != nil {
		w.t.Fatalf("a frame of an honest side: %v", err)
	}
	switch what {
	case Opened:
		b := &flow{Stream: s}
		s.User = b
		a := w.flows[s.Number][0]
		a.twin, b.twin = b, a
		to.open = append(to.open, b)
		to.send(s.ID(Credit), limitBytes(s.Accept()))
	case Refuse:
		to.refused++
		to.send(ID(Reset, true, Number(f.id)), nil)
	case Unread:
		to.send(s.ID(Reset), nil)
	}
	if n := to.table.Len(); to == w.sides[1] && n > worldStreams {
		w.t.Fatalf("RS7: %d streams are open", n)
	}
}

func TestWhatIsWrittenIsReadOnceAndInOrder(t *testing.T) {
	refused := 0
	for seed := range uint64(150) {
		w := newWorld(t, seed)
		for range 400 {
			w.step()
		}
		for _, s := range w.sides { // both read what is there, and close
			for range 8 {
				for i := range w.sides {
					for len(w.sides[i].out) > 0 {
						w.carry(i)
					}
				}
				for _, f := range s.open {
					w.read(s, f, window)
				}
			}
		}
		for _, s := range w.sides {
			for len(s.open) > 0 {
				w.close(s, s.open[0])
			}
		}
		for len(w.sides[0].out)+len(w.sides[1].out) > 0 {
			w.carry(0)
			w.carry(1)
		}
		if a, b := w.sides[0].table.Len(), w.sides[1].table.Len(); a+b > 0 {
			t.Fatalf("seed %d: %d and %d streams are left", seed, a, b)
		}
		refused += w.sides[1].refused
	}
	if refused == 0 {
		t.Error("no stream was refused: the limit was never reached")
	}
}

// accepted is a table with one stream that was accepted, and its number.
func accepted(t *testing.T) (*Table, *Stream) {
	t.Helper()
	table := NewTable(2, window)
	s, what, err := table.Take(ID(Open, false, 5), limitBytes(window))
	if err != nil || what != Opened {
		t.Fatal(what, err)
	}
	s.Accept()
	return table, s
}

func TestWhatNoHonestSideSendsIsAViolation(t *testing.T) {
	full := make([]byte, window)
	for _, c := range []struct {
		name   string
		frames []frame
	}{
		{"RS1: a number that was used", []frame{{ID(Open, false, 5), limitBytes(1)}}},
		{"RS1: a lower number", []frame{{ID(Open, false, 4), limitBytes(1)}}},
		{"RS1: a stream that was not opened", []frame{{ID(Data, false, 6), nil}}},
		{"RS1: no number", []frame{{ID(Data, false, 0), nil}}},
		{"a kind that is none", []frame{{ID(0, false, 5), nil}}},
		{"another one", []frame{{ID(7, false, 5), nil}}},
		{"RS3: more than the limit", []frame{{ID(Data, false, 5), full}, {ID(Data, false, 5), full[:1]}}},
		{"RS4: a limit that shrinks", []frame{{ID(Credit, false, 5), limitBytes(window - 1)}}},
		{"RS4: a limit without end", []frame{{ID(Credit, false, 5), limitBytes(1 << 63)}}},
		{"a limit of seven bytes", []frame{{ID(Credit, false, 5), full[:7]}}},
		{"RS5: data after the end", []frame{{ID(End, false, 5), nil}, {ID(Data, false, 5), full[:1]}}},
		{"RS5: two ends", []frame{{ID(End, false, 5), nil}, {ID(End, false, 5), nil}}},
	} {
		table, _ := accepted(t)
		var err error
		for i, f := range c.frames {
			if _, _, err = table.Take(f.id, f.data); err != nil && i < len(c.frames)-1 {
				t.Errorf("%s: an early error: %v", c.name, err)
			}
		}
		if !errors.Is(err, fabric.ErrViolation) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, _, err := NewTable(0, window).Take(ID(Open, false, 1), limitBytes(1)); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("an open for the side that opens: %v", err)
	}
}

func TestBytesBehindACloseAreAnsweredWithOneReset(t *testing.T) {
	table, s := accepted(t)
	if tell := table.Close(s); tell != End {
		t.Fatalf("%v", tell)
	}
	if table.Len() != 1 {
		t.Fatal("the stream is forgotten before the other side ended it")
	}
	if _, what, err := table.Take(ID(Data, false, 5), []byte("late")); what != Unread || err != nil {
		t.Errorf("%v, %v", what, err)
	}
	if _, what, err := table.Take(ID(Data, false, 5), []byte("later")); what != Nothing || err != nil {
		t.Errorf("%v, %v", what, err)
	}
	if table.Len() != 0 {
		t.Error("the stream is still known")
	}
}

func TestABufferIsAQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 0))
	var b buffer
	var want []byte
	for range 5000 {
		p := make([]byte, rng.IntN(3000))
		if len(want)+len(p) <= window && rng.IntN(2) == 0 {
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			b.write(p)
			want = append(want, p...)
			continue
		}
		n := b.read(p)
		if n != min(len(p), len(want)) || !bytes.Equal(p[:n], want[:n]) {
			t.Fatalf("%d bytes of %d are others", n, len(want))
		}
		if want = want[n:]; b.len() != len(want) {
			t.Fatalf("%d bytes are left, %d should be", b.len(), len(want))
		}
	}
}

// Whatever frames come, there is no panic, memory stays within the limits, and nothing is answered
// that was not asked.
func FuzzHostileFrames(f *testing.F) {
	f.Add([]byte{1, 1, 8, 3, 1, 200, 4, 1, 0})
	f.Fuzz(hostile)
}

func TestHostileFramesDoNoHarm(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 500 {
		script := make([]byte, rng.IntN(200))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		hostile(t, script)
	}
}

// hostile sends frames of a script to a side that accepts streams and to one that opens them; they
// close and read now and then.
func hostile(t *testing.T, script []byte) {
	const most = 3
	tables := []*Table{NewTable(most, window), NewTable(0, window)}
	known := map[*Stream]bool{}
	for range 2 {
		s, _ := tables[1].Open(nil)
		known[s] = true
	}
	for len(script) >= 3 {
		kind, number, n := Kind(script[0]%8), uint64(script[1]%8), int(script[2])
		table := tables[script[0]>>3&1]
		script = script[3:]
		data := make([]byte, n*n)
		if kind == Open || kind == Credit {
			data = limitBytes(uint64(n) << (n % 64))
		}
		s, what, err := table.Take(ID(kind, false, number), data)
		if err != nil {
			if !errors.Is(err, fabric.ErrViolation) {
				t.Fatal(err)
			}
			continue // an honest side would end the pair: what follows must do no harm all the same
		}
		if what == Opened {
			known[s] = true
			s.Accept()
		}
		if tables[0].Len() > most {
			t.Fatalf("RS7: %d streams", tables[0].Len())
		}
		for s := range known {
			if s.buffer.len() > window || len(s.buffer.ring) > 2*window || s.Sendable(1<<30) < 0 {
				t.Fatalf("RS4: %d bytes are buffered, %d can be sent", s.buffer.len(), s.Sendable(1<<30))
			}
			switch n % 5 {
			case 0:
				s.Read(make([]byte, n))
				s.Grant()
			case 1:
				if n%25 == 1 {
					for _, table := range tables {
						if table.Find(ID(Data, false, s.Number)) == s {
							table.Close(s)
						}
					}
				}
			}
		}
	}
}

// A limit that is given again changes nothing, and harms nothing.
func TestALimitMayBeGivenAgain(t *testing.T) {
	table, s := accepted(t)
	for range 2 {
		if _, _, err := table.Take(ID(Credit, false, s.Number), limitBytes(2*window)); err != nil || s.Sendable(3*window) != 2*window {
			t.Errorf("%d bytes may be sent: %v", s.Sendable(3*window), err)
		}
	}
}
