package batch_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/replicated/internal/batch"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// member is a member that sends, and what is expected of its batch.
type member struct {
	batch.Batch[int]
	random  *rand.Rand
	limit   int
	next    int   // number of the next record
	want    []int // records that were put and did not leave, in their order
	claimed []int // records that were sent
	sealed  []int // of the message that is being sent
	waiting map[*batch.Waiting[int]]int
	barrier map[*batch.Waiting[int]]int // records that are claimed when it is passed
	shared  int                         // messages of several records
}

func (m *member) record(n int) (head, tail []byte) {
	b := machine.AppendCommand(nil, machine.Header{Call: uint64(n)})
	b = append(b, make([]byte, m.random.IntN(60))...)
	cut := machine.CommandBytes
	if m.random.IntN(2) == 0 {
		cut = len(b)
	}
	return b[:cut], b[cut:]
}

// step does one of all things that may happen next.
func (m *member) step() error {
	switch m.random.IntN(9) {
	case 0, 1, 2, 3:
		n := m.next
		m.next++
		head, tail := m.record(n)
		if m.random.IntN(2) == 0 && m.Alone() {
			m.want, m.claimed = append(m.want, n), append(m.claimed, n)
			return nil
		}
		if !m.Fits(len(head) + len(tail)) {
			return fmt.Errorf("a record of %d bytes does not fit", len(head)+len(tail))
		}
		idle := m.Empty() && m.sealed == nil
		first, w := m.Put(head, tail, n)
		m.want = append(m.want, n)
		if w != nil {
			m.waiting[w] = n
		}
		if first != (idle && w == nil) {
			return fmt.Errorf("record %d is the first: %v", n, first)
		}
	case 4:
		if w := m.Barrier(); w != nil {
			m.barrier[w] = len(m.want)
		} else if len(m.claimed) != len(m.want) {
			return fmt.Errorf("nothing waits, and %v of %v are claimed", m.claimed, m.want)
		}
	case 5:
		if w := oldest(m.waiting); w != nil {
			n := m.waiting[w]
			if !m.Leave(w) || m.Leave(w) {
				return fmt.Errorf("record %d is not in the queue once", n)
			}
			delete(m.waiting, w)
			i := slices.Index(m.want, n)
			m.want = slices.Delete(m.want, i, i+1)
			for b, before := range m.barrier {
				if before > i {
					m.barrier[b]--
				}
			}
		}
	case 6:
		if w := oldest(m.barrier); w != nil {
			m.Leave(w)
			delete(m.barrier, w)
		}
	default:
		if m.sealed != nil {
			return m.claim()
		}
		data, of, passed := m.Seal(uint64(1 + m.next))
		if data == nil {
			if len(m.claimed) != len(m.want) {
				return fmt.Errorf("nothing is sealed, and %v of %v are claimed", m.claimed, m.want)
			}
			return nil
		}
		m.sealed = slices.Clone(of)
		if err := m.pass(passed); err != nil {
			return err
		}
		return m.check(data)
	}
	return nil
}

// oldest returns what has waited longest, so that a seed always gives the same run.
func oldest(all map[*batch.Waiting[int]]int) (first *batch.Waiting[int]) {
	for w, n := range all {
		if first == nil || n < all[first] {
			first = w
		}
	}
	return first
}

// check checks a message.
func (m *member) check(data []byte) error {
	if again, _, _ := m.Seal(1); again != nil {
		return fmt.Errorf("two messages are sealed at the same time")
	}
	rs := machine.Split(data)
	if several := len(m.sealed) > 1; several != (rs.Time != 0) || several && len(data) > m.limit {
		return fmt.Errorf("%d records in %d bytes, time %d", len(m.sealed), len(data), rs.Time)
	} else if several {
		m.shared++
	}
	i := 0
	for r, ok := rs.Next(); ok; r, ok = rs.Next() {
		if i >= len(m.sealed) || machine.Call(r) != uint64(m.sealed[i]) || r[0] != byte(machine.Command) {
			return fmt.Errorf("record %d of %v is % x", i, m.sealed, r)
		}
		if rs.Time == 0 && binary.LittleEndian.Uint64(r[12:]) != uint64(1+m.next) {
			return fmt.Errorf("a record without a time: % x", r)
		}
		i++
	}
	if i != len(m.sealed) {
		return fmt.Errorf("%d records of %v", i, m.sealed)
	}
	return nil
}

func (m *member) claim() error {
	m.claimed = append(m.claimed, m.sealed...)
	m.sealed = nil
	if err := m.pass(m.Sent()); err != nil {
		return err
	}
	if n := len(m.claimed); n > len(m.want) || !slices.Equal(m.claimed, m.want[:n]) {
		return fmt.Errorf("%v are claimed of %v", m.claimed, m.want)
	}
	return nil
}

// pass checks what has passed the queue.
func (m *member) pass(passed []*batch.Waiting[int]) error {
	for _, w := range passed {
		before, isBarrier := m.barrier[w]
		_, waited := m.waiting[w]
		switch {
		case isBarrier && before > len(m.claimed):
			return fmt.Errorf("a barrier after %d is passed when %d are claimed", before, len(m.claimed))
		case !isBarrier && !waited:
			return fmt.Errorf("what does not wait is passed")
		}
		delete(m.barrier, w)
		delete(m.waiting, w)
	}
	if w := oldest(m.waiting); w != nil && m.Empty() && len(m.barrier) == 0 {
		return fmt.Errorf("record %d waits for room that there is", m.waiting[w])
	}
	return nil
}

func play(seed uint64) (*member, error) {
	m := &member{
		random: rand.New(rand.NewPCG(seed, 1)), waiting: map[*batch.Waiting[int]]int{}, barrier: map[*batch.Waiting[int]]int{},
	}
	m.limit = machine.SeveralBytes + machine.PartBytes + 80 + m.random.IntN(400)
	m.Limit(m.limit)
	for range 300 {
		if err := m.step(); err != nil {
			return m, err
		}
	}
	for m.sealed != nil || !m.Empty() {
		if m.sealed == nil {
			data, of, passed := m.Seal(uint64(1 + m.next))
			m.sealed = slices.Clone(of)
			if err := errors.Join(m.pass(passed), m.check(data)); err != nil {
				return m, err
			}
		}
		if err := m.claim(); err != nil {
			return m, err
		}
	}
	if len(m.claimed) != len(m.want) || len(m.waiting)+len(m.barrier) != 0 || !m.Alone() {
		return m, fmt.Errorf("%v are claimed of %v, %d records and %d barriers wait", m.claimed, m.want, len(m.waiting), len(m.barrier))
	}
	return m, nil
}

// TestRecordsAreSentOnceInTheirOrder plays random callers, senders and losses of patience, and
// checks BA1, BA2, BA3, BA4 and BA5.
func TestRecordsAreSentOnceInTheirOrder(t *testing.T) {
	shared := 0
	for seed := range uint64(3000) {
		m, err := play(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		shared += m.shared
	}
	if shared < 3000 {
		t.Errorf("only %d messages had several records", shared)
	}
}

func TestARecordThatDoesNotFit(t *testing.T) {
	var b batch.Batch[int]
	b.Limit(100)
	if most := 100 - machine.SeveralBytes - machine.PartBytes; !b.Fits(most) || b.Fits(most+1) {
		t.Error("what fits is not what there is room for")
	}
}

func BenchmarkPut(b *testing.B) {
	var m batch.Batch[int]
	m.Limit(16 << 10)
	args := make([]byte, 100)
	var room [machine.CommandBytes]byte
	b.ReportAllocs()
	for i := range b.N {
		m.Put(machine.AppendCommand(room[:0], machine.Header{Call: uint64(i)}), args, i)
		if i%100 == 99 {
			m.Seal(1)
			m.Sent()
		}
	}
}
