package testutil

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
)

func TestThoseOfOneAuthorityTrustEachOtherAndNobodyElse(t *testing.T) {
	a := NewAuthority(t)
	for name, c := range map[string]struct {
		client *tls.Config
		good   bool
	}{"the same authority": {a.TLS(), true}, "another authority": {NewAuthority(t).TLS(), false}} {
		server := a.TLS()
		server.ClientAuth = tls.RequireAndVerifyClientCert
		l, err := tls.Listen("tcp", "127.0.0.1:0", server)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if conn, err := l.Accept(); err == nil {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}
		}()
		conn, err := tls.DialWithDialer(&net.Dialer{}, "tcp", l.Addr().String(), c.client)
		if err == nil {
			defer conn.Close()
			var echo [1]byte
			if _, err = conn.Write([]byte{1}); err == nil {
				_, err = io.ReadFull(conn, echo[:])
			}
		}
		if (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFilesHoldACertificateThatTheAuthoritySigned(t *testing.T) {
	cert, key, ca := NewAuthority(t).Files()
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		t.Error(err)
	}
	if _, err := tls.LoadX509KeyPair(ca, key); err == nil {
		t.Error("the key is that of the authority")
	}
}

// Two processes never get one address, although both only try whether they could listen there.
func TestAnAddressIsTakenUntilTheTestEnds(t *testing.T) {
	addr := FreeAddress(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil || number%2 != 0 {
		t.Fatalf("%s: %v", addr, err)
	}
	if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", number+1)); err == nil { // what another process tries first
		l.Close()
		t.Error("another process can take the address")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestWhatHasToHappenSoonHasADeadline(t *testing.T) {
	if at, ok := Within(t).Deadline(); !ok || time.Until(at) > patience {
		t.Error(at, ok)
	}
}
