package squall_test

import (
	"net"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// freeAddr finds a loopback address to listen on.
func freeAddr(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually waits until something holds, and fails the test if it does not within 20 seconds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func send(t testing.TB, s *squall.Subgroup, text string) {
	t.Helper()
	if err := s.Send(t.Context(), []byte(text)); err != nil {
		t.Fatal(err)
	}
}
