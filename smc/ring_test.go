package smc

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/order"
)

func newRing(window, ring int) (*Sender, Receiver) {
	d, b := aligned(window*DescriptorBytes), aligned(ring)
	return NewSender(d, b), NewReceiver(d, b)
}

// sendAll commits messages and publishes them from an index on.
func sendAll(t *testing.T, s *Sender, first order.Index, messages ...string) {
	t.Helper()
	for _, m := range messages {
		c, ok := s.Claim(len(m))
		if !ok {
			t.Fatalf("no space for %q", m)
		}
		copy(c.Bytes, m)
		if err := s.Commit(c); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := s.Publish(first, math.MaxInt); int(n) != len(messages) {
		t.Fatalf("%d of %d messages published", n, len(messages))
	}
}

func expectTake(t *testing.T, r *Receiver, i order.Index, want string) {
	t.Helper()
	data, kind, err := r.Take(i)
	if err != nil || kind != Small || string(data) != want {
		t.Fatalf("index %d: %q, %v, %v; want %q", i, data, kind, err, want)
	}
}

func expectNull(t *testing.T, r *Receiver, i order.Index) {
	t.Helper()
	if data, kind, err := r.Take(i); kind != Null || err != nil {
		t.Fatalf("index %d: %q, %v; want a null", i, data, err)
	}
}

func TestAMessageTakesItsLengthRoundedUpTo8(t *testing.T) {
	s, _ := newRing(64, 64)
	for _, n := range []int{1, 7, 8, 9, 16} { // 8 + 8 + 8 + 16 + 16
		if _, ok := s.Claim(n); !ok {
			t.Fatalf("no space for %d bytes", n)
		}
	}
	if _, ok := s.Claim(8); !ok {
		t.Fatal("no space for the last 8 bytes")
	}
	if _, ok := s.Claim(1); ok {
		t.Fatal("room for 65 bytes in 64")
	}
	if _, ok := s.Claim(0); !ok {
		t.Fatal("an empty message takes no bytes")
	}
}

func TestANullTakesNothing(t *testing.T) {
	s, r := newRing(4, 32)
	for i := range order.Index(1000) { // a message at every tenth index
		if i%10 != 9 {
			expectNull(t, &r, i)
			continue
		}
		sendAll(t, s, i, "sixteen bytes ok")
		expectTake(t, &r, i, "sixteen bytes ok")
		s.Release(i + 1)
	}
}

func TestAnEmptyMessageIsAMessageAndNoNull(t *testing.T) {
	s, r := newRing(4, 32)
	sendAll(t, s, 2, "")
	expectNull(t, &r, 0)
	expectNull(t, &r, 1)
	expectTake(t, &r, 2, "")
}

func TestAClaimThatIsNotFinishedHoldsUpThoseBehindItOnly(t *testing.T) {
	s, r := newRing(8, 64)
	sendAll(t, s, 0, "before")
	slow, _ := s.Claim(4)
	behind, _ := s.Claim(6)
	copy(behind.Bytes, "behind")
	s.Commit(behind)
	if n, _ := s.Publish(1, math.MaxInt); n != 0 {
		t.Fatalf("%d messages overtook a claim", n)
	}
	expectTake(t, &r, 0, "before")
	copy(slow.Bytes, "slow")
	s.Commit(slow)
	s.Publish(1, math.MaxInt)
	expectTake(t, &r, 1, "slow")
	expectTake(t, &r, 2, "behind")
}

func TestAnAbortedClaimLeavesNoTraceInTheOrder(t *testing.T) {
	s, r := newRing(8, 64)
	a, _ := s.Claim(8)
	b, _ := s.Claim(8)
	c, _ := s.Claim(8)
	copy(a.Bytes, "first...")
	copy(c.Bytes, "third...")
	s.Commit(c)
	s.Abort(b)
	s.Commit(a)
	n, size := s.Publish(0, math.MaxInt)
	if n != 2 || size != 16 {
		t.Fatalf("%d messages, %d bytes", n, size)
	}
	if ranges := s.ByteRanges(); len(ranges) != 2 || ranges[0] != (fabric.Range{Off: 0, N: 8}) || ranges[1] != (fabric.Range{Off: 16, N: 8}) {
		t.Fatalf("pushed %v", ranges)
	}
	expectTake(t, &r, 0, "first...")
	expectTake(t, &r, 1, "third...")
	if s.Release(2); s.InUse() != 0 {
		t.Fatalf("%d claims in use", s.InUse())
	}
}

func TestClaimsThatWereAllAbortedGiveTheirRoomBack(t *testing.T) {
	s, _ := newRing(4, 64)
	for range 20 {
		c, ok := s.Claim(32)
		if !ok {
			t.Fatal("the room of aborted claims was never freed")
		}
		s.Abort(c)
		s.Publish(0, math.MaxInt)
		s.Release(0)
	}
}

// S5
func TestAClaimIsFinishedOnce(t *testing.T) {
	finish := map[string]func(*Sender, Claim) error{"commit": (*Sender).Commit, "abort": (*Sender).Abort}
	for first, one := range finish {
		for second, two := range finish {
			s, _ := newRing(4, 64)
			c, _ := s.Claim(8)
			if err := one(s, c); err != nil {
				t.Fatalf("%s: %v", first, err)
			}
			if err := two(s, c); !errors.Is(err, ErrClaimDone) {
				t.Errorf("%s after %s: %v", second, first, err)
			}
			for range 8 { // its slot belongs to later claims now
				s.Publish(0, math.MaxInt)
				s.Release(math.MaxInt64)
				c, _ := s.Claim(8)
				s.Abort(c)
			}
			if err := two(s, c); !errors.Is(err, ErrClaimDone) {
				t.Errorf("%s after %s, laps later: %v", second, first, err)
			}
		}
	}
}

// S5 among goroutines: of many that finish the same claims, one each succeeds.
func TestAClaimIsFinishedOnceByManyGoroutines(t *testing.T) {
	s, _ := newRing(256, 4096)
	var claims []Claim
	for range 256 {
		c, _ := s.Claim(8)
		claims = append(claims, c)
	}
	var wins [4]int
	var all sync.WaitGroup
	for g := range wins {
		all.Go(func() {
			for _, c := range claims {
				if s.Commit(c) == nil {
					wins[g]++
				}
			}
		})
	}
	all.Wait()
	if sum := wins[0] + wins[1] + wins[2] + wins[3]; sum != len(claims) {
		t.Errorf("S5: %d claims were committed %d times", len(claims), sum)
	}
	if n, _ := s.Publish(0, math.MaxInt); int(n) != len(claims) {
		t.Errorf("%d of %d published", n, len(claims))
	}
}

func TestPublishStopsAtItsLimit(t *testing.T) {
	s, r := newRing(8, 64)
	for range 5 {
		c, _ := s.Claim(1)
		s.Commit(c)
	}
	for _, want := range []order.Index{2, 2, 1, 0} {
		if n, _ := s.Publish(0, 2); n != want {
			t.Fatalf("published %d, want %d", n, want)
		}
	}
	expectTake(t, &r, 0, "\x00")
}

// S3: every index is found under the stamp of its own lap, however far the receiver is behind.
func TestStaleDescriptorsAreNulls(t *testing.T) {
	s, r := newRing(4, 64)
	sendAll(t, s, 0, "a", "b", "c", "d")
	for i, want := range []string{"a", "b", "c", "d"} {
		expectTake(t, &r, order.Index(i), want)
	}
	for i := order.Index(4); i < 100; i++ { // the next descriptor holds lap 0 still
		expectNull(t, &r, i)
	}
}

func TestABatchIsOneDescriptorRangeAndOneByteRangeTwoAtAWrap(t *testing.T) {
	s, _ := newRing(8, 64)
	sendAll(t, s, 0, "12345678", "12345678", "12345678", "12345678", "12345678", "12345678")
	if a, b := s.DescriptorRanges(6); a != (fabric.Range{Off: 0, N: 96}) || b.N != 0 {
		t.Errorf("descriptors %v and %v", a, b)
	}
	if r := s.ByteRanges(); len(r) != 1 || r[0] != (fabric.Range{Off: 0, N: 48}) {
		t.Errorf("bytes %v", r)
	}
	s.Release(6)
	sendAll(t, s, 6, "12345678", "12345678", "12345678", "12345678")
	if a, b := s.DescriptorRanges(4); a != (fabric.Range{Off: 96, N: 32}) || b != (fabric.Range{Off: 0, N: 32}) {
		t.Errorf("descriptors %v and %v", a, b)
	}
	if r := s.ByteRanges(); len(r) != 2 || r[0] != (fabric.Range{Off: 48, N: 16}) || r[1] != (fabric.Range{Off: 0, N: 16}) {
		t.Errorf("bytes %v", r)
	}
}

func TestAMessageLiesInOnePieceWhateverThePosition(t *testing.T) {
	s, r := newRing(4, 64)
	for i := range order.Index(200) {
		m := strings.Repeat(string(rune('a'+i%26)), int(i)%33)
		sendAll(t, s, i, m)
		expectTake(t, &r, i, m)
		s.Release(i + 1)
	}
}

// S4: the receiver is given every extreme of a descriptor; it answers with an error or with bytes
// of the ring.
func TestWhateverADescriptorSaysWhatIsTakenLiesInTheRing(t *testing.T) {
	const ring = 64
	extremes := []uint32{0, 1, 7, 8, ring - 1, ring, ring + 1, ring / 2, 1 << 31, 1<<31 - 1, math.MaxUint32 - ring, math.MaxUint32}
	for _, offset := range extremes {
		for _, length := range extremes {
			d, b := aligned(4*DescriptorBytes), aligned(ring)
			copy(b, bytes.Repeat([]byte{7}, ring))
			at := descriptorAt(d, 0)
			at.stamp, at.place = 1, uint64(offset)|uint64(length)<<32
			r := NewReceiver(d, b)
			data, kind, err := r.Take(0)
			inside := uint64(offset&^largeBit)+uint64(length) <= ring && length <= ring/2 && offset&^largeBit%align == 0
			switch {
			case inside && (err != nil || kind != Small+Kind(offset&largeBit) || len(data) != int(length) || cap(data) != int(length)):
				t.Errorf("S4: [%d, +%d): %d bytes, %v, %v", offset, length, len(data), kind, err)
			case !inside && (!errors.Is(err, ErrBadDescriptor) || !strings.Contains(err.Error(), "S4") || kind != Null || data != nil):
				t.Errorf("S4: [%d, +%d): %d bytes, %v, %v", offset, length, len(data), kind, err)
			}
		}
	}
}

func TestAWaitingSenderIsWokenForAQuarterOrWhenNothingElseWillComeFree(t *testing.T) {
	s, _ := newRing(8, 64)
	sendAll(t, s, 0, "12345678", "12345678", "12345678", "12345678", "12345678", "12345678", "12345678", "12345678")
	if s.Roomy(8) {
		t.Error("roomy though full")
	}
	if s.Release(1); s.Roomy(8) {
		t.Error("roomy with an eighth, while seven more are in flight")
	}
	if s.Release(2); !s.Roomy(8) {
		t.Error("not roomy with a quarter")
	}
	if s.Roomy(24) {
		t.Error("roomy for 24 bytes with 16 free")
	}
	if s.Release(8); !s.Roomy(32) {
		t.Error("not roomy though empty")
	}
	for range 7 { // and stay open: nothing is on its way that would make room
		if _, ok := s.Claim(8); !ok {
			t.Fatal("no space")
		}
	}
	if !s.Roomy(8) {
		t.Error("not roomy with an eighth, although no more will come free by itself")
	}
}

// Next is the index of the next descriptor if that is not passed.
func TestTheNextMessageIsFoundFromEveryIndexBeforeIt(t *testing.T) {
	s, r := newRing(4, 64)
	if got := r.Next(0); got != NoIndex {
		t.Errorf("an empty ring has a message at index %d", got)
	}
	sendAll(t, s, 5, "five")
	for from, want := range map[order.Index]order.Index{0: 5, 4: 5, 5: 5, 6: NoIndex} {
		if got := r.Next(from); got != want {
			t.Errorf("from index %d on: %d, want %d", from, got, want)
		}
	}
	expectTake(t, &r, 5, "five")
	if got := r.Next(0); got != NoIndex {
		t.Errorf("after the last message there is one at index %d", got)
	}
}

// What Roomy says, Claim does: otherwise a waiting sender would be woken again and again for
// nothing.
func TestWhatIsRoomyCanBeClaimed(t *testing.T) {
	const window, ring = 4, 64
	for start := 0; start < ring; start += 8 {
		for held := 0; held <= ring/2; held += 8 {
			for n := 0; n <= ring/2; n += 8 {
				s, _ := newRing(window, ring)
				for k := range start / 8 { // brings the ring to its start
					sendAll(t, s, order.Index(k), "12345678")
					s.Release(order.Index(k + 1))
				}
				s.Claim(held) // and stays open
				if roomy := s.Roomy(n); roomy {
					if _, ok := s.Claim(n); !ok {
						t.Errorf("start %d, %d bytes held: roomy for %d, but cannot be claimed", start, held, n)
					}
				}
			}
		}
	}
}

func TestSendingDoesNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build box their arguments")
	}
	s, r := newRing(64, 4096)
	i := order.Index(0)
	if allocs := testing.AllocsPerRun(1000, func() {
		for range 8 {
			c, _ := s.Claim(100)
			s.Commit(c)
		}
		n, _ := s.Publish(i, math.MaxInt)
		for range n {
			r.Take(i)
			i++
		}
		s.Release(i)
	}); allocs != 0 {
		t.Errorf("%v allocations per batch", allocs)
	}
}

func TestTheZeroClaimIsNoClaim(t *testing.T) {
	s, r := newRing(4, 64)
	if err := s.Abort(Claim{}); !errors.Is(err, ErrClaimDone) {
		t.Fatalf("abort of no claim: %v", err)
	}
	if err := s.Commit(Claim{}); !errors.Is(err, ErrClaimDone) {
		t.Fatalf("commit of no claim: %v", err)
	}
	sendAll(t, s, 0, "first")
	expectTake(t, &r, 0, "first")
}
