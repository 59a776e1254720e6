package pair

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/fabric"
)

// A peer that owns its row writes into it what it likes, at any time. The other side reads and
// writes nothing outside of the rows, does not panic or loop without end, what it sends is not
// changed (RP5, RP6), and over a socket, or once it is copied, neither is what it holds (RP18).
func FuzzAHostileRow(f *testing.F) {
	f.Add(uint64(1), []byte{0})
	f.Add(uint64(2), bytes.Repeat([]byte{0xff, 0x10, 0, 3}, 64))
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		hostile(t, seed, script)
	})
}

func TestAHostileRowDoesNoHarm(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for seed := range uint64(400) {
		script := make([]byte, rng.IntN(300))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		hostile(t, seed, script)
	}
}

// hostile has the owner of row b follow a script: half of its deeds are honest, so that the others
// are reached in every state.
func hostile(t *testing.T, seed uint64, script []byte) {
	rng := rand.New(rand.NewPCG(seed, 1))
	a, _, _ := fabric.NewMemory(ControlBytes + MinRingBytes)
	b, _, _ := fabric.NewMemory(ControlBytes + MinRingBytes)
	direct := seed%2 == 0
	tx, rx := NewSender(a, b, direct), NewReceiver(a, b, direct)
	if seed%3 == 0 { // with little memory
		rx.used = Allowance - frameCost
		rx.Bound(&budget{left: int(seed/6) % (8 << 10)})
	}
	row := b // of the hostile side
	if !direct {
		row, _, _ = fabric.NewMemory(ControlBytes + MinRingBytes)
	}
	evil := NewSender(row, a, direct)
	// push brings bytes of the hostile row to the replica, if the receiver lets them in (RP18).
	push := func(r fabric.Range) {
		if !direct && r.N > 0 && (r.Off < ControlBytes || rx.Guard(r) == nil) {
			copy(b[r.Off:r.Off+r.N], row[r.Off:])
		}
	}
	word := func(off int, w uint64) {
		store(row, off, w)
		push(fabric.Range{Off: off, N: 8})
	}
	var kept []*Frame
	contents := map[*Frame][]byte{}
	sent := 0
	for i, deed := range script {
		switch deed % 6 {
		case 0: // an honest frame
			evil.Put(Kind(deed/6%byte(kinds)), int(deed)%Channels, uint64(i), [][]byte{make([]byte, rng.IntN(300))})
			if !direct {
				x, y := evil.Ranges()
				push(x)
				push(y)
				push(fabric.Range{Off: sentOff, N: 8})
			}
		case 1: // any word of the control part
			word(8*rng.IntN(ControlBytes/8), rng.Uint64()>>rng.IntN(64))
		case 2: // any word of the ring
			word(ControlBytes+8*rng.IntN(MinRingBytes/8), rng.Uint64()>>rng.IntN(64))
		case 3: // sent, within what is possible
			word(sentOff, load(b, sentOff)+16*uint64(deed))
		case 4: // a header, where the next one is looked for
			word(ControlBytes+int(rx.taken&(MinRingBytes-1)), head(Kind(deed/6%byte(kinds+1)), int(deed)%80, rng.IntN(1200)))
		}
		for range 2 * MinRingBytes / HeaderBytes {
			f, err := rx.Next()
			if f == nil || err != nil {
				break
			}
			if len(f.Data) > MaxMessage(MinRingBytes) || cap(f.Data) > len(f.Data) && !f.moved {
				t.Fatalf("RP5: a frame of %d bytes with room for %d", len(f.Data), cap(f.Data))
			}
			rx.Received(f)
			if deed%4 == 0 {
				rx.Copy(f)
			}
			contents[f] = bytes.Clone(f.Data)
			kept = append(kept, f)
		}
		for _, f := range kept {
			if private := !direct || f.copied || f.moved; private && !bytes.Equal(f.Data, contents[f]) {
				t.Fatalf("RP18: frame %d changed while it was held", f.Number)
			}
		}
		for len(kept) > int(deed)%8 {
			rx.Free(kept[len(kept)-1])
			kept = kept[:len(kept)-1]
		}
		if tx.Put(Message, int(deed)%Channels, 0, [][]byte{make([]byte, int(deed))}) == Accepted {
			sent++
		}
		for c := range Channels {
			if n := tx.Unreceived(c); n < 0 || n > sent {
				t.Fatalf("RP6: %d messages were not received of %d", n, sent)
			}
		}
	}
}
