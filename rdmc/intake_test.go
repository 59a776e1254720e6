package rdmc

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/crc"
)

// pair is a connection of plain TCP, and an intake at its end.
func pair(t *testing.T) (from intake, there, here net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err = net.Dial("tcp", l.Addr().String())
	if err == nil {
		here, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close(); here.Close() })
	return newIntake(here), there, here
}

// write writes in parts that an intake may be woken for, or not.
func write(conn net.Conn, r *rand.Rand, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), 1+r.IntN(1<<(1+r.IntN(18))))
		if _, err := conn.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func TestAReadEndsWithItsLastByteAlthoughNothingFollows(t *testing.T) {
	from, there, _ := pair(t)
	r := rand.New(rand.NewPCG(1, 29))
	for range 300 {
		sent := make([]byte, 1+r.IntN(1<<(1+r.IntN(19))))
		for i := range sent {
			sent[i] = byte(r.Uint32())
		}
		wrote := make(chan error, 1)
		go func(seed uint64) { wrote <- write(there, rand.New(rand.NewPCG(seed, 0)), sent) }(r.Uint64())
		got := make([]byte, len(sent))
		cut := r.IntN(len(got)) // a header, and what it tells of
		sum, err := from.read(got[:cut])
		if err != nil || sum != crc.Of(sent[:cut]) {
			t.Fatalf("the first %d of %d bytes: sum %x, %v", cut, len(sent), sum, err)
		}
		sum, err = from.read(got[cut:])
		if err != nil || sum != crc.Of(sent[cut:]) || !slices.Equal(got, sent) {
			t.Fatalf("%d bytes from %d on: sum %x, %v", len(sent), cut, sum, err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatNobodyWantsIsReadToItsLastByte(t *testing.T) {
	from, there, _ := pair(t)
	for _, n := range []int{1, wasteBytes - 1, wasteBytes, wasteBytes + 1, 3*wasteBytes + 7} {
		wrote := make(chan error, 1)
		go func() { wrote <- write(there, rand.New(rand.NewPCG(2, uint64(n))), append(make([]byte, n), 7)) }()
		next := make([]byte, 1)
		err := skip(from, n)
		if err == nil {
			_, err = from.read(next)
		}
		if err != nil || next[0] != 7 {
			t.Errorf("after %d bytes comes %d, %v", n, next[0], err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnEndEndsAReadThatWaitsForMore(t *testing.T) {
	closed := func(_, here net.Conn) { here.Close() }
	gone := func(there, _ net.Conn) { there.Close() }
	reset := func(there, _ net.Conn) {
		_ = there.(*net.TCPConn).SetLinger(0) // then Close sends a reset
		there.Close()
	}
	for _, c := range []struct {
		name string
		sent int
		end  func(there, here net.Conn)
		want error // nil: any
	}{
		{"nothing came", 0, gone, io.EOF}, {"half came", 100_000, gone, io.ErrUnexpectedEOF}, {"a reset", 100_000, reset, nil},
		{"this end closes", 100_000, closed, net.ErrClosed},
	} {
		from, there, here := pair(t)
		ended := make(chan error, 1)
		go func() {
			_, err := from.read(make([]byte, 200_000))
			ended <- err
		}()
		if err := write(there, rand.New(rand.NewPCG(3, 0)), make([]byte, c.sent)); err != nil {
			t.Fatal(err)
		}
		c.end(there, here)
		if err := <-ended; err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v instead of %v", c.name, err, c.want)
		}
	}
}
