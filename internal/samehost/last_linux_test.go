package samehost

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A process sends its last packet and closes between the kernel's look at the queue and its look at
// the end of the connection: recvmsg says that it is the end, and has a packet when it is asked
// again.
func TestTheLastPacketIsNotLost(t *testing.T) {
	const said = "here"
	peeks, taken := 0, false
	n, _, cut, err := take(func(b, _ []byte, flags int) (n, m, got int, err error) {
		if flags&unix.MSG_PEEK == 0 {
			taken = true
			return 0, 0, 0, nil
		}
		if peeks++; peeks == 1 {
			return 0, 0, 0, nil
		}
		return copy(b, said), 0, 0, nil
	}, make([]byte, 16), 1)
	if n != len(said) || cut || err != nil || !taken {
		t.Errorf("%d bytes, cut %v, %v, taken %v", n, cut, err, taken)
	}
	ends := 0
	if n, _, _, err := take(func(_, _ []byte, _ int) (int, int, int, error) {
		ends++
		return 0, 0, 0, nil
	}, make([]byte, 16), 1); n != 0 || err != nil || ends != 3 {
		t.Errorf("at the end: %d bytes, %v, after %d calls", n, err, ends)
	}
}
