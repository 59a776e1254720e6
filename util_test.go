package squall_test

import (
	"net"
	"testing"
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
