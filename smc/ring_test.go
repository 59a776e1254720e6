package smc

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/order"
)

func newRing(window, ring int) (*Sender, Receiver) {
	area := aligned(AreaBytes(ring, window))
	return NewSender(window, area), NewReceiver(window, area)
}

// shutRing shuts a ring that other goroutines use.
func shutRing(s *Sender) {
	left := make(chan struct{})
	if s.Shut(func() { close(left) }) {
		<-left
	}
}

// publish publishes everything from an index on and returns how many messages that is.
func publish(s *Sender, r *Receiver, first order.Index) int {
	b, any := s.Publish(first, math.MaxInt)
	if any && r != nil {
		if err := r.See(b.Position); err != nil {
			panic(err)
		}
	}
	return int(b.Messages)
}

// sendAll sends messages and publishes them from an index on.
func sendAll(t *testing.T, s *Sender, r *Receiver, first order.Index, messages ...string) {
	t.Helper()
	for _, m := range messages {
		if _, ok := s.Send([]byte(m), Small); !ok {
			t.Fatalf("no space for %q", m)
		}
	}
	if n := publish(s, r, first); n != len(messages) {
		t.Fatalf("%d of %d messages published", n, len(messages))
	}
}

func expectTake(t *testing.T, r *Receiver, i order.Index, want string) {
	t.Helper()
	if next := r.Next(); next != i {
		t.Fatalf("the next message is %d, want %d", next, i)
	}
	data, kind, err := r.Take()
	if err != nil || kind != Small || string(data) != want {
		t.Fatalf("index %d: %q, %v, %v; want %q", i, data, kind, err, want)
	}
	r.Pass()
}

// expect takes an index that is of some kind.
func expect(t *testing.T, r *Receiver, i order.Index, want Kind) {
	t.Helper()
	next := r.Next()
	if _, kind, err := r.Take(); next != i || kind != want || err != nil {
		t.Fatalf("index %d is %v, %v; want %v at %d", next, kind, err, want, i)
	}
	r.Pass()
}

func TestAMessageTakesAHeaderAndItsLengthRoundedUpTo8(t *testing.T) {
	s, _ := newRing(64, 64)
	for n, want := range map[int]uint64{0: 8, 1: 16, 7: 16, 8: 16, 9: 24, 16: 24} {
		before := s.end
		if _, ok := s.Claim(n); !ok || s.end-before != want {
			t.Errorf("%d bytes take %d, want %d", n, s.end-before, want)
		}
	}
}

func TestANullTakesNothing(t *testing.T) {
	s, r := newRing(4, 32)
	for i := order.Index(9); i < 1000; i += 10 { // a message at every tenth index
		sendAll(t, s, &r, i, "sixteen bytes ok")
		expectTake(t, &r, i, "sixteen bytes ok")
		s.Release(i + 1)
	}
}

// S3: the index follows from the gap, which is exact up to 2^26 and rounded up beyond.
func TestTheIndexOfAMessageFollowsFromTheGapsBeforeIt(t *testing.T) {
	s, r := newRing(4, 64)
	next := order.Index(0)
	for _, gap := range []order.Index{0, 1, 1<<26 - 1, 1 << 26, 1<<26 + 1, 1<<27 - 1, 1 << 32, 1<<40 - 1, 1<<54 + 12345} {
		s.Send([]byte("m"), Small)
		b, _ := s.Publish(next+gap, 1)
		if late := b.Next - 1 - (next + gap); late > gap>>25 || gap < 1<<26 && late > 0 {
			t.Errorf("a gap of %d became %d", gap, gap+late)
		}
		if err := r.See(b.Position); err != nil {
			t.Fatal(err)
		}
		expectTake(t, &r, b.Next-1, "m")
		s.Release(b.Next)
		next = b.Next
	}
}

func TestAClaimThatIsNotFinishedDelaysThoseAfterItOnly(t *testing.T) {
	s, r := newRing(8, 64)
	sendAll(t, s, &r, 0, "before")
	slow, _ := s.Claim(4)
	s.Send([]byte("behind"), Small)
	if n := publish(s, &r, 1); n != 0 {
		t.Fatalf("%d messages overtook a claim", n)
	}
	expectTake(t, &r, 0, "before")
	copy(slow.Bytes, "slow")
	s.Commit(slow)
	publish(s, &r, 1)
	expectTake(t, &r, 1, "slow")
	expectTake(t, &r, 2, "behind")
}

func TestAnAbortedClaimIsANull(t *testing.T) {
	s, r := newRing(8, 64)
	a, _ := s.Claim(8)
	b, _ := s.Claim(8)
	c, _ := s.Claim(8)
	copy(a.Bytes, "first...")
	copy(c.Bytes, "third...")
	s.Commit(c)
	s.Abort(b)
	s.Commit(a)
	batch, _ := s.Publish(0, math.MaxInt)
	if batch.Messages != 2 || batch.Voids != 1 || batch.Bytes != 16 || batch.Next != 3 {
		t.Fatalf("published %+v", batch)
	}
	r.See(batch.Position)
	expectTake(t, &r, 0, "first...")
	expect(t, &r, 1, Void)
	expectTake(t, &r, 2, "third...")
	if s.Release(3); s.InUse() != 0 {
		t.Fatalf("%d claims in use", s.InUse())
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
			for i := range order.Index(8) { // its slot belongs to later claims now
				publish(s, nil, i)
				s.Release(i + 1)
				if i%2 == 0 {
					c, _ := s.Claim(8)
					s.Abort(c)
				} else {
					s.Send(nil, Small)
				}
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
	if n := publish(s, nil, 0); n != len(claims) {
		t.Errorf("%d of %d published", n, len(claims))
	}
}

func TestPublishStopsAtItsLimit(t *testing.T) {
	s, r := newRing(8, 64)
	for range 2 {
		s.Send([]byte("x"), Small)
	}
	for range 3 {
		c, _ := s.Claim(1)
		s.Commit(c)
	}
	next := order.Index(0)
	for _, want := range []uint64{2, 2, 1, 0} {
		b, any := s.Publish(next, 2)
		if b.Messages != want || any != (want > 0) {
			t.Fatalf("published %d, want %d", b.Messages, want)
		}
		if any {
			next = b.Next
			r.See(b.Position)
		}
	}
	expectTake(t, &r, 0, "x")
}

func TestABatchIsOneRangeTwoAtAWrap(t *testing.T) {
	s, r := newRing(8, 64) // an area of 128
	for i, want := range [][2]fabric.Range{
		{{Off: 0, N: 96}},
		{{Off: 96, N: 24}}, // a message, and then 8 bytes are left
		{{Off: 120, N: 8}, {Off: 0, N: 24}},
	} {
		n := []int{88, 16, 16}[i]
		c, ok := s.Claim(n)
		if !ok {
			t.Fatal("no space")
		}
		s.Commit(c)
		b, _ := s.Publish(order.Index(i), 1)
		r.See(b.Position)
		if b.Ranges != want {
			t.Errorf("ranges %v, want %v", b.Ranges, want)
		}
		s.Release(order.Index(i + 1))
	}
}

func TestAMessageLiesInOnePieceWhateverThePosition(t *testing.T) {
	s, r := newRing(4, 64)
	for i := range order.Index(200) {
		m := strings.Repeat(string(rune('a'+i%26)), int(i)%33)
		sendAll(t, s, &r, i, m)
		expectTake(t, &r, i, m)
		s.Release(i + 1)
	}
}

// S4: the receiver is given every extreme of a header and of the position; it answers with an error
// or with bytes of the ring that were published.
func TestWhateverAHeaderSaysWhatIsTakenLiesInTheRing(t *testing.T) { hostileHeaders(t) }

func hostileHeaders(t testing.TB) {
	const ring, window = 64, 4
	area := aligned(AreaBytes(ring, window))
	extremes := []uint64{0, 1, 7, 8, 9, 24, ring/2 - 1, ring / 2, ring/2 + 1, ring, 87, 88, 89, 96, 1<<31 - 9, 1<<31 - 1}
	for _, off := range []uint64{0, 40, 80, 88} { // where the record is
		for _, length := range extremes {
			for kind := Small; kind <= pad; kind++ {
				for published := uint64(8); published <= 96; published += 8 {
					r := NewReceiver(window, area)
					clear(area)
					r.off, r.limit = off, off
					store(area, off, headerOf(int(length), kind))
					if err := r.See(off + published); err != nil {
						t.Fatalf("position %d: %v", off+published, err)
					}
					if next := r.Next(); next != 0 {
						t.Fatalf("S4: the next index is %d", next)
					}
					start := r.off
					store(area, start, headerOf(1<<20, Small)) // a header is loaded once
					fills := r
					data, got, err := r.Take()
					var filled []byte
					if n := fills.Fill(&filled, 0, 1, 1<<20); (n > 0) != (err == nil && got == Small) || (n > 0) != r.Plain() || n > 0 && (len(filled) != len(data) || cap(filled) != cap(data) || unsafe.SliceData(filled) != unsafe.SliceData(data)) {
						t.Fatalf("S4: %d bytes of kind %d at %d, %d published: Fill takes %d, of %d bytes", length, kind, off, published, n, len(filled))
					}
					size := HeaderBytes + (length+7)&^7
					room := min(published, uint64(len(area))-off)
					inside := kind != pad && length <= ring/2 && size <= room
					wraps := kind == pad && off > 0 && off+size == uint64(len(area)) && published > size
					switch {
					case wraps: // the record at the start is of zeros
						if err != nil || got != Small || len(data) != 0 || start != 0 {
							t.Fatalf("S4: a pad at %d: %d bytes at %d, %v, %v", off, len(data), start, got, err)
						}
					case inside && (err != nil || got != kind || len(data) != int(length) || cap(data) != int(length)):
						t.Fatalf("S4: %d bytes at %d, %d published: %d bytes, %v, %v", length, off, published, len(data), got, err)
					case !inside && (!errors.Is(err, ErrBadRecord) || !strings.Contains(err.Error(), "S4") || data != nil):
						t.Fatalf("S4: %d bytes at %d, %d published: %d bytes, %v, %v", length, off, published, len(data), got, err)
					}
				}
			}
		}
	}
}

// S4
func TestAPositionThatCannotBeIsRefused(t *testing.T) {
	_, r := newRing(4, 64)
	if err := r.See(16); err != nil {
		t.Fatal(err)
	}
	for _, position := range []uint64{8, 20, 104, math.MaxUint64, math.MaxUint64 - 7} {
		if err := r.See(position); !errors.Is(err, ErrBadRecord) {
			t.Errorf("position %d: %v", position, err)
		}
	}
}

func TestAWaitingSenderIsWokenForAQuarterOrWhenNothingElseWillComeFree(t *testing.T) {
	s, r := newRing(8, 64)
	sendAll(t, s, &r, 0, "12345678", "12345678", "12345678", "12345678", "12345678", "12345678", "12345678", "12345678")
	if s.HasSpace(8) {
		t.Error("roomy though full")
	}
	if s.Release(1); s.HasSpace(8) {
		t.Error("roomy with an eighth, while seven more are in flight")
	}
	if s.Release(2); !s.HasSpace(8) {
		t.Error("not roomy with a quarter")
	}
	if s.HasSpace(32) {
		t.Error("roomy for 32 bytes with 32 free")
	}
	if s.Release(8); !s.HasSpace(32) {
		t.Error("not roomy though empty")
	}
	for range 7 { // and stay open: nothing is in flight that would free space
		if _, ok := s.Claim(8); !ok {
			t.Fatal("no space")
		}
	}
	if !s.HasSpace(8) {
		t.Error("not roomy with an eighth, although no more will come free by itself")
	}
}

// What HasSpace says, Claim does: otherwise a waiting sender would be woken again and again for
// nothing.
func TestWhatIsRoomyCanBeClaimed(t *testing.T) {
	const window, ring = 4, 64
	for start := 0; start < ring; start += 8 {
		for held := 0; held <= ring/2; held += 8 {
			for n := 0; n <= ring/2; n += 8 {
				s, _ := newRing(window, ring)
				for k := range start / 8 { // brings the ring to its start
					sendAll(t, s, nil, order.Index(k), "12345678")
					s.Release(order.Index(k + 1))
				}
				s.Claim(held) // and stays open
				if roomy := s.HasSpace(n); roomy {
					if _, ok := s.Claim(n); !ok {
						t.Errorf("start %d, %d bytes held: roomy for %d, but cannot be claimed", start, held, n)
					}
				}
			}
		}
	}
}

// What is spare takes nothing from the claims that others wait for, in whichever order these come.
func TestAClaimThatIsSpareLeavesSpaceForOthers(t *testing.T) {
	const window, ring = 8, 256
	spare := 0
	for start := 0; start < ring; start += 24 {
		for held := 0; held <= 160; held += 16 {
			for sizes := range 5 * 5 * 5 {
				n, first, second := sizes%5*20, sizes/5%5*20, sizes/25*20
				s, _ := newRing(window, ring)
				for k := range start / 24 { // brings the ring to its start
					sendAll(t, s, nil, order.Index(k), "1234567812345678")
					s.Release(order.Index(k + 1))
				}
				s.Claim(min(held, 128)) // and stays open
				s.Claim(max(held-128, 0))
				s.Reserve(2, first+second)
				if _, ok := s.Claim(n); !ok {
					continue
				}
				spare++
				s.Reserve(0, 0)
				for _, bytes := range []int{first, second} {
					if _, ok := s.Claim(bytes); !ok {
						t.Fatalf("start %d, %d bytes held: %d are spare next to %d and %d, which do not all fit", start, held, n, first, second)
					}
				}
			}
		}
	}
	s, _ := newRing(window, ring)
	for k := range window { // one slot for each that waits, and one for this one
		s.Reserve(2, 0)
		_, got := s.Claim(0)
		if want := k+3 <= window; got != want {
			t.Errorf("%d of %d claimed: spare is %t", k, window, got)
		}
		if s.Reserve(0, 0); !got {
			s.Claim(0)
		}
	}
	if spare < 1000 {
		t.Errorf("only %d of the claims were spare", spare)
	}
}

func TestSendingDoesNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build box their arguments")
	}
	s, r := newRing(64, 4096)
	i, hundred := order.Index(0), make([]byte, 100)
	if allocs := testing.AllocsPerRun(1000, func() {
		for range 8 {
			c, _ := s.Claim(100)
			s.Commit(c)
		}
		s.Send(hundred, Small)
		publish(s, &r, i)
		for ; r.Next() == i; i++ {
			r.Take()
			r.Pass()
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
	sendAll(t, s, &r, 0, "first")
	expectTake(t, &r, 0, "first")
}
