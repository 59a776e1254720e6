package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
)

// hostile is a connection that passed the handshake, and the link at the other end of it.
type hostile struct {
	net.Conn
	t    *testing.T
	link *Link
}

const hostileView = 7

var hostileShape = fabric.RowShape{ControlBytes: 4 * fabric.LineBytes, RowBytes: 4*fabric.LineBytes + 4096}

// untouched fills a replica, so that a write to where nothing was announced shows.
const untouched = 0xEE

func newHostile(t *testing.T) *hostile {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	attacker, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { attacker.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	parker, err := fabric.NewParker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { parker.Close() })
	own, free, err := fabric.NewMemory(hostileShape.RowBytes)
	if err != nil {
		t.Fatal(err)
	}
	link, err := NewLink(accepted, Config{View: hostileView, Own: own, OwnShape: hostileShape, PeerShape: hostileShape, Parker: parker})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close(); free() })
	for i := range link.Replica() {
		link.Replica()[i] = untouched
	}
	return &hostile{attacker, t, link}
}

func (h *hostile) say(b []byte) {
	h.t.Helper()
	if _, err := h.Write(b); err != nil {
		h.t.Fatal(err)
	}
}

// poll polls the link until it fails or something holds, and returns the error.
func (h *hostile) poll(holds func() bool) error {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); runtime.Gosched() {
		h.link.cfg.Parker.Look()
		if _, err := h.link.Poll(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			h.t.Fatal("nothing happened")
		}
	}
	return nil
}

func never() bool { return false }

// frame builds a frame by hand; every number in it can be wrong.
type frame struct {
	view   uint64
	ranges []fabric.Range
	lines  []uint64 // offsets
	fill   byte     // of every byte, words included

	sayRanges, sayLines, sayBytes int // added to what the header would say
}

func (f frame) encode() []byte {
	le, sum := binary.LittleEndian, 0
	for _, r := range f.ranges {
		sum += r.N
	}
	b := le.AppendUint16(nil, uint16(len(f.ranges)+f.sayRanges))
	b = le.AppendUint16(b, uint16(len(f.lines)+f.sayLines))
	b = le.AppendUint32(b, uint32(sum+f.sayBytes))
	b = le.AppendUint64(b, f.view)
	for _, r := range f.ranges {
		b = le.AppendUint32(le.AppendUint32(b, uint32(r.Off)), uint32(r.N))
	}
	b = append(b, bytes.Repeat([]byte{f.fill}, min(sum, 1<<20))...)
	for _, off := range f.lines {
		b = append(le.AppendUint64(b, off), bytes.Repeat([]byte{f.fill}, fabric.LineBytes)...)
	}
	return b
}

func at(off, n int) []fabric.Range { return []fabric.Range{{Off: off, N: n}} }

func TestAViolationFailsTheLinkAndNamesTheRule(t *testing.T) {
	control, row := hostileShape.ControlBytes, hostileShape.RowBytes
	many := func(n int) (ranges []fabric.Range) {
		for range n {
			ranges = append(ranges, fabric.Range{Off: control, N: 1})
		}
		return ranges
	}
	for name, c := range map[string]struct {
		rule string
		frame
	}{
		"range after the row":               {"FT1", frame{ranges: at(row, 8)}},
		"range over the end":                {"FT1", frame{ranges: at(row-8, 9)}},
		"range in the control part":         {"FT1", frame{ranges: at(0, 8)}},
		"range that begins in control":      {"FT1", frame{ranges: at(control-1, 2)}},
		"empty range":                       {"FT1", frame{ranges: at(control, 0)}},
		"range of 4 GiB":                    {"FT1", frame{ranges: at(control, math.MaxUint32)}},
		"range that would wrap 32 bits":     {"FT1", frame{ranges: at(math.MaxUint32, math.MaxUint32)}},
		"second range wrong":                {"FT1", frame{ranges: append(at(control, 8), at(row, 8)...)}},
		"line off its boundary":             {"FT2", frame{lines: []uint64{8}}},
		"line after the control part":       {"FT2", frame{lines: []uint64{uint64(control)}}},
		"line far away":                     {"FT2", frame{lines: []uint64{1 << 40}}},
		"line at the end of the world":      {"FT2", frame{lines: []uint64{math.MaxUint64 &^ 63}}},
		"neither ranges nor lines":          {"FT3", frame{}},
		"too many ranges":                   {"FT3", frame{ranges: many(maxRanges + 1)}},
		"as many ranges as can be said":     {"FT3", frame{ranges: many(math.MaxUint16)}},
		"more lines than the row":           {"FT3", frame{lines: make([]uint64, control/fabric.LineBytes+1)}},
		"as many lines as can be said":      {"FT3", frame{lines: []uint64{0}, sayLines: math.MaxUint16 - 1}},
		"sum too small":                     {"FT3", frame{ranges: at(control, 8), sayBytes: -1}},
		"sum too large":                     {"FT3", frame{ranges: at(control, 8), sayBytes: 1}},
		"bytes announced, no ranges":        {"FT3", frame{lines: []uint64{0}, sayBytes: 1 << 20}},
		"a later view":                      {"FT4", frame{view: hostileView + 1, lines: []uint64{0}}},
		"the last view":                     {"FT4", frame{view: math.MaxUint64, lines: []uint64{0}}},
		"an older view with an empty range": {"FT1", frame{view: hostileView - 1, ranges: at(control, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			f := c.frame
			if f.view == 0 {
				f.view = hostileView
			}
			f.fill = 0x11
			h.say(f.encode())
			err := h.poll(never)
			if !errors.Is(err, fabric.ErrViolation) || !strings.Contains(err.Error(), c.rule+":") {
				t.Errorf("F3: the link says %v, want %s", err, c.rule)
			}
			if bad := slicesOther(h.link.Replica(), untouched); bad >= 0 {
				t.Errorf("F3: byte %d of the replica was changed", bad)
			}
		})
	}
}

// slicesOther returns the first place of another byte than want, or -1.
func slicesOther(b []byte, want byte) int {
	for i, v := range b {
		if v != want {
			return i
		}
	}
	return -1
}

func TestGarbageFailsTheLinkAndChangesNothing(t *testing.T) {
	t.Parallel()
	seed := testutil.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		h := newHostile(t)
		garbage := make([]byte, 4096)
		for i := range garbage {
			garbage[i] = byte(random.Uint32())
		}
		garbage[1], garbage[3] = 0xFF, 0xFF // not a frame by any luck
		h.say(garbage)
		if err := h.poll(never); !errors.Is(err, fabric.ErrViolation) {
			t.Errorf("the link says %v", err)
		}
		if bad := slicesOther(h.link.Replica(), untouched); bad >= 0 {
			t.Errorf("byte %d of the replica was changed", bad)
		}
	}
}

// A violation in the last line of a frame comes too late for what was right before it, but nothing
// else may change.
func TestAFrameThatGoesWrongChangesOnlyWhatItRightlyAnnounced(t *testing.T) {
	h := newHostile(t)
	from := hostileShape.ControlBytes + 100
	h.say(frame{view: hostileView, ranges: at(from, 50), lines: []uint64{64, 65}, fill: 0x11}.encode())
	if err := h.poll(never); !errors.Is(err, fabric.ErrViolation) || !strings.Contains(err.Error(), "FT2") {
		t.Fatal(err)
	}
	for i, v := range h.link.Replica() {
		legal := i >= from && i < from+50 || i >= 64 && i < 128
		if v != untouched && !legal {
			t.Fatalf("byte %d is %#x", i, v)
		}
	}
}

func TestAFrameOfAnOlderViewIsDroppedAndTheLinkLives(t *testing.T) {
	h := newHostile(t)
	control := hostileShape.ControlBytes
	h.say(frame{view: hostileView - 1, ranges: at(control, 3000), lines: []uint64{0, 64}, fill: 0x22}.encode())
	h.say(frame{view: hostileView - 6, ranges: at(1<<30, 70000), lines: []uint64{128}, fill: 0x33}.encode()) // rows were larger then
	h.say(frame{view: hostileView, lines: []uint64{192}, fill: 0x44}.encode())
	if err := h.poll(func() bool { return h.link.Replica()[192] == 0x44 }); err != nil {
		t.Fatal(err)
	}
	for i, v := range h.link.Replica() {
		if want := byte(untouched); v != want && (i < 192 || i >= 256) {
			t.Fatalf("FT4: byte %d is %#x, of an older view", i, v)
		}
	}
}

// Half a frame and silence costs the polls that find nothing, and is not an error: whether the peer
// is alive is for its heartbeat to say. Its line is not visible before its bytes are complete.
func TestHalfAFrameAndSilenceIsNoError(t *testing.T) {
	t.Parallel()
	whole := frame{view: hostileView, ranges: at(hostileShape.ControlBytes, 3000), lines: []uint64{64}, fill: 0x55}.encode()
	for _, cut := range []int{1, 15, 16, 20, 24, 25, 1000, 3023, 3024, 3030, len(whole) - 1} {
		h := newHostile(t)
		h.say(whole[:cut])
		for range 2000 {
			h.link.cfg.Parker.Look()
			if _, err := h.link.Poll(); err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
		}
		if h.link.Replica()[64] != untouched {
			t.Fatalf("F2: cut at %d: the line is here before its frame", cut)
		}
		h.say(whole[cut:])
		if err := h.poll(func() bool { return h.link.Replica()[127] == 0x55 }); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if bytes := h.link.Replica()[hostileShape.ControlBytes:][:3000]; slicesOther(bytes, 0x55) >= 0 {
			t.Fatalf("cut at %d: the bytes differ from the bytes that were sent", cut)
		}
	}
}

func TestAConnectionThatEndsWithinAFrameIsAPeerThatIsGone(t *testing.T) {
	whole := frame{view: hostileView, ranges: at(hostileShape.ControlBytes, 3000), lines: []uint64{64}, fill: 0x55}.encode()
	for _, linger := range []int{-1, 0} { // a clean end, and a reset
		for _, cut := range []int{0, 8, 20, 500, len(whole) - 1} {
			t.Run(fmt.Sprintf("linger=%d/cut=%d", linger, cut), func(t *testing.T) {
				h := newHostile(t)
				h.say(whole[:cut])
				h.Conn.(*net.TCPConn).SetLinger(linger)
				h.Close()
				if err := h.poll(never); !errors.Is(err, fabric.ErrPeerGone) || errors.Is(err, fabric.ErrViolation) {
					t.Errorf("F5: the link says %v", err)
				}
				if h.link.Replica()[64] != untouched {
					t.Error("F2: a line of an unfinished frame is visible")
				}
			})
		}
	}
}

// F2: a line that was pushed again stands where it stood first, so lines of one frame are seen
// together or not at all.
func TestTheLinesOfAFrameBecomeVisibleTogether(t *testing.T) {
	h := newHostile(t)
	whole := frame{view: hostileView, ranges: at(4*fabric.LineBytes, 8), lines: []uint64{64, 128, 192}, fill: 7}.encode()
	cut := len(whole) - lineBytes - 10 // within the second line
	h.say(whole[:cut])
	words := func() (seen int) {
		for off := 64; off < 256; off += 8 {
			if *fabric.Word(h.link.Replica(), off) == 0x0707070707070707 {
				seen++
			}
		}
		return seen
	}
	taken := func() bool { return h.link.rx.inFrame && len(h.link.rx.tail) == 2*lineBytes-10 }
	if err := h.poll(taken); err != nil || !taken() || words() != 0 {
		t.Fatalf("%d words are visible of a frame that is not whole: %v", words(), err)
	}
	h.say(whole[cut:])
	if err := h.poll(func() bool { return words() > 0 }); err != nil || words() != 24 {
		t.Fatalf("%d words are visible: %v", words(), err)
	}
}
