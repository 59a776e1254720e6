package wire

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// randomNumbers returns a set with some of the numbers from a base on, and these.
func randomNumbers(rng *rand.Rand, base int64) (n Numbers, in map[int64]bool) {
	n, in = Numbers{Base: base}, map[int64]bool{}
	for range pick(rng, 0, 1, 5, 300) {
		if i := rng.Int64N(260); n.Add(base+i) != (i < maxBits) {
			panic("a number is added, and should not be; or it is not")
		} else if i < maxBits {
			in[i] = true
		}
	}
	return n, in
}

// Submessages of any values are decoded as they were appended, with the least and the largest
// numbers, empty samples and full sets; and none of them is accepted without its last bytes.
func TestSubmessagesOfAnyValuesAreDecodedAsTheyWereAppended(t *testing.T) {
	rng := rand.New(rand.NewPCG(testutil.Seed(t), 1))
	for range 500 {
		var a Appender
		a.Reset(someone)
		r, w := Reader(rng.Uint32N(1<<24), rng.IntN(2) == 0), Writer(rng.Uint32N(1<<24), rng.IntN(2) == 0)
		seq := pick[int64](rng, 1, 2, math.MaxUint32, 1<<32, math.MaxInt64-maxBits-1, rng.Int64N(1<<40)+1)
		count := pick(rng, 0, 1, math.MaxUint32, rng.Uint32())
		size := pick(rng, 1, 4, 1000)
		whole := bytes.Repeat([]byte{1, 2, 3, 4}, 1+rng.IntN(600))
		fragment := 1 + rng.IntN((len(whole)+size-1)/size)
		part := whole[(fragment-1)*size : min(fragment*size, len(whole))]
		status := pick(rng, 0, Disposed, Unregistered, Disposed|Unregistered)
		payload := whole[:4*rng.IntN(2)]
		set, in := randomNumbers(rng, seq)
		lacks, _ := randomNumbers(rng, pick[int64](rng, 1, 2, math.MaxUint32))
		beat := Heartbeat{Reader: r, Writer: w, First: seq, Last: seq + pick[int64](rng, -1, 0, 7), Count: count, Final: rng.IntN(2) == 0}
		answer := AckNack{Reader: r, Writer: w, Missing: set, Count: count, Final: rng.IntN(2) == 0}
		nack := NackFrag{Reader: r, Writer: w, Sequence: seq, Missing: lacks, Count: count}

		a.Heartbeat(beat)
		a.AckNack(answer)
		a.NackFrag(nack)
		behind := min(seq+3, math.MaxInt64-maxBits)
		a.Gap(r, w, seq, behind)
		a.DataFrag(r, w, seq, status, whole, fragment, size)
		a.Data(r, w, seq, status, payload)
		all := message(t, a.Bytes())

		h, err := all[0].Heartbeat()
		same(t, h, beat, err)
		k, err := all[1].AckNack()
		same(t, k, answer, err)
		for i := int64(-2); i < 260; i++ {
			if k.Missing.Has(seq+i) != in[i] {
				t.Fatalf("number %d of a set is in it: %v", i, !in[i])
			}
		}
		n, err := all[2].NackFrag()
		same(t, n, nack, err)
		g, err := all[3].Gap()
		same(t, g, Gap{Reader: r, Writer: w, Start: seq, Numbers: Numbers{Base: behind}}, err)
		d, err := all[4].DataFrag()
		same(t, []any{d.Reader, d.Writer, d.Sequence, d.IsKey, d.Fragment, d.Fragments, d.FragmentBytes, d.SampleBytes}, []any{r, w, seq, status != 0, uint32(fragment), 1, size, len(whole)}, err)
		is, _, err := d.Change()
		same(t, is, status, err)
		same(t, bytes.Equal(d.Payload, part), true, nil)
		d, err = all[5].Data()
		same(t, []any{d.Reader, d.Writer, d.Sequence, d.IsKey, d.HasPayload}, []any{r, w, seq, status != 0, true}, err)
		is, _, err = d.Change()
		same(t, is, status, err)
		same(t, bytes.Equal(d.Payload, payload), true, nil)
		for _, s := range all[:5] {
			short := s
			short.Body = s.Body[:rng.IntN(len(s.Body)-3)] // a fragment may be padded by three bytes
			if err := decodeAny(&short); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%d of %d bytes of a submessage %#02x are accepted: %v", len(short.Body), len(s.Body), s.Kind, err)
			}
		}
	}
}
