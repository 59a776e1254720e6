package relay

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/squall-go/squall/order"
)

func FuzzParseControl(f *testing.F) {
	f.Add((&Control{Kind: Announce, Code: 3, Channel: 4, Index: 5, Tag: 6, Size: 7, Word: 8}).Append(nil))
	f.Add((&Control{Kind: Fail, Code: 1, Tag: 9, Text: "is gone"}).Append(nil))
	f.Add((&Control{Kind: Attach, Channel: 1, Token: [TokenBytes]byte{1, 2, 3}}).Append(nil))
	f.Add(bytes.Repeat([]byte{0xff}, ControlBytes))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if len(sent) < ControlBytes {
			return
		}
		c, n, err := ParseControl((*[ControlBytes]byte)(sent))
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if n > MaxTextBytes {
			t.Fatalf("a text of %d bytes", n)
		}
		c.SetText(sent[ControlBytes:min(len(sent), ControlBytes+n)])
		again := c.Append(nil)
		d, n, err := ParseControl((*[ControlBytes]byte)(again))
		if d.SetText(again[ControlBytes:]); err != nil || n != len(again)-ControlBytes || d != c {
			t.Fatalf("%+v became %+v: %v", c, d, err)
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	var b [HeaderBytes]byte
	(&Header{Channel: 1, Message: 2, Block: 3, Length: 4, Sum: 5}).Put(&b)
	f.Add(b[:])
	f.Add(bytes.Repeat([]byte{0xff}, HeaderBytes))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if len(sent) < HeaderBytes {
			return
		}
		h, err := ParseHeader((*[HeaderBytes]byte)(sent))
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		var again [HeaderBytes]byte
		if h.Put(&again); !bytes.Equal(again[:], sent[:HeaderBytes]) || h.Length == 0 || h.Length > MaxBlockBytes {
			t.Fatalf("% x became % x", sent[:HeaderBytes], again)
		}
	})
}

// A reason is the same at every node, however often it was passed on, and no peer can write on a
// terminal.
func TestATextIsCleanedOnce(t *testing.T) {
	for _, text := range []string{"is gone", "a\x1b[31mred", "\xff\xfe", strings.Repeat("é", MaxTextBytes), "zero\x00", strings.Repeat("x", MaxTextBytes+1)} {
		once := clean(text)
		if clean(once) != once || len(once) > MaxTextBytes || strings.ContainsAny(once, "\x00\x1b") || !utf8.ValidString(once) {
			t.Errorf("%q became %q", text, once)
		}
	}
}

// FuzzRelay lets a peer say what it wants: nothing panics, nothing is completed, and no memory is
// asked for beyond the bound.
func FuzzRelay(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, root bool) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		c := Config{Nodes: []order.NodeID{1, 2, 3}, Self: 1, MaxMessage: 1 << 16}
		if root {
			c.Self = 0
		}
		r := New(c)
		var out Effects
		for place := range 3 {
			if place != c.Self {
				r.Sees(place)
				r.Attached(place, 0, false, &out)
			}
		}
		if root {
			if _, err := r.Start(100, 0, 100, &out); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Offer(100, 0, 50, "here", &out); err != nil {
				t.Fatal(err)
			}
		}
		small := func(max int) uint64 {
			if rnd.IntN(20) == 0 {
				return rnd.Uint64()
			}
			return uint64(rnd.IntN(max))
		}
		for range 40 {
			place := (c.Self + 1 + rnd.IntN(2)) % 3
			if rnd.IntN(3) == 0 {
				h := Header{Message: small(3), Block: uint32(small(5)), Length: uint32(small(70000))}
				if _, v := r.Expect(place, &h, &out); v == Take {
					r.Arrived(place, &h, Arrival(1+rnd.IntN(3)), &out)
				}
			} else {
				r.Step(place, &Control{
					Kind: Attach + Kind(rnd.IntN(int(Released))), Code: uint8(small(8)), Index: small(4), Tag: small(5), Size: small(1 << 17), Word: uint32(small(1 << 15)),
					Text: "here",
				}, &out)
			}
			for i := 0; i < len(out.Calls); i++ {
				if c := out.Calls[i]; c.Kind == MakeRoom {
					if c.Size > 1<<16 || c.Size < 0 {
						t.Fatalf("asked for %d bytes", c.Size)
					}
					if rnd.IntN(2) == 0 {
						r.Room(c.Index, nil, &out)
						out.Calls[i].Kind = 0
					}
				}
			}
			if f, ok := r.NextFetch(); ok {
				if f.Offset < 0 || f.Length < 0 || f.Offset+f.Length > f.Size || f.Size > 1<<16 {
					t.Fatalf("asked to fetch %+v", f)
				}
				r.Fetched(&f, nil, &out)
			}
			if s, ok := r.Next(); ok {
				r.BlockSent(&s, &out)
			}
			r.invariants()
		}
	})
}
