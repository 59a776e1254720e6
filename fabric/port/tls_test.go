package port

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

func TestMutualTLSWorks(t *testing.T) {
	config := testutil.NewAuthority(t).TLS()
	p, _ := listen(t, Config{TLS: config, Advertise: "localhost:0"})
	states := make(chan tls.ConnectionState, 2)
	p.Handle(KindRows, func(conn net.Conn) {
		states <- conn.(*tls.Conn).ConnectionState()
		echo(conn)
	})
	_, number, _ := net.SplitHostPort(p.Addr())
	for _, addr := range []string{p.Addr(), net.JoinHostPort("127.0.0.1", number)} {
		conn, err := Dial(within(t), addr, KindRows, config)
		if err != nil {
			t.Fatal(err)
		}
		checkEcho(t, conn)
		s := <-states
		if s.Version != tls.VersionTLS13 || s.NegotiatedProtocol != "squall/2" || len(s.VerifiedChains) == 0 || s.DidResume {
			t.Fatalf("version %x, protocol %q, %d chains, resumed %v", s.Version, s.NegotiatedProtocol, len(s.VerifiedChains), s.DidResume)
		}
	}
	if config.ClientAuth != 0 || config.NextProtos != nil || config.ServerName != "" {
		t.Fatal("the caller's configuration was changed")
	}
}

func TestTLSWithoutATrustedClientCertificateIsRefused(t *testing.T) {
	config, stranger := testutil.NewAuthority(t).TLS(), testutil.NewAuthority(t).TLS()
	stranger.RootCAs = config.RootCAs
	lenient := config.Clone()
	lenient.ClientAuth = tls.NoClientCert
	hooked := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return lenient, nil }}
	for name, server := range map[string]*tls.Config{"given": config, "lenient": lenient, "hooked": hooked} {
		p, rejections := listen(t, Config{TLS: server})
		p.Handle(KindRows, func(conn net.Conn) { conn.Close(); t.Error("FP4: a peer without a certificate was handed over") })
		for _, client := range []*tls.Config{{RootCAs: config.RootCAs}, stranger} {
			conn, err := Dial(within(t), p.Addr(), KindRows, client)
			if !errors.Is(err, ErrNoCertificateShown) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%s: dial: %v, %v", name, conn, err)
			}
			if r := expectRejection(t, rejections, TLSFailed); !errors.Is(r.Err, ErrNoCertificateShown) {
				t.Errorf("%s: the acceptor says %v", name, r)
			}
		}
	}
}

func TestADialerRefusesAnUntrustedServer(t *testing.T) {
	p, rejections := listen(t, Config{TLS: testutil.NewAuthority(t).TLS()})
	_, err := Dial(within(t), p.Addr(), KindRows, testutil.NewAuthority(t).TLS())
	if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
		t.Fatal(err)
	}
	expectRejection(t, rejections, TLSFailed)
}

func TestADialerTrustsTheClientsAuthorityAndNeverTheMachinesRoots(t *testing.T) {
	config := testutil.NewAuthority(t).TLS()
	p, _ := listen(t, Config{TLS: config})
	p.Handle(KindRows, echo)
	config = config.Clone()
	config.RootCAs = nil
	conn, err := Dial(within(t), p.Addr(), KindRows, config)
	if err != nil {
		t.Fatal(err)
	}
	checkEcho(t, conn)
	config.ClientCAs = nil
	if conn, err := Dial(within(t), p.Addr(), KindRows, config); !errors.Is(err, ErrNoClientCAs) {
		t.Fatalf("without any authority: %v, %v", conn, err)
	}
}

func TestTLSOnOneSideOnlyIsRefusedOnBoth(t *testing.T) {
	config := testutil.NewAuthority(t).TLS()
	secure, rejections := listen(t, Config{TLS: config})
	if conn, err := Dial(within(t), secure.Addr(), KindRows, nil); err == nil {
		t.Fatalf("a plain dialer got %v", conn)
	}
	expectRejection(t, rejections, TLSFailed)
	plain, rejections := listen(t, Config{})
	if conn, err := Dial(within(t), plain.Addr(), KindRows, config); err == nil {
		t.Fatalf("a TLS dialer got %v", conn)
	}
	expectRejection(t, rejections, TLSFailed)
}

func TestOlderTLSAndOtherProtocolsAreRefused(t *testing.T) {
	config := testutil.NewAuthority(t).TLS()
	p, rejections := listen(t, Config{TLS: config})
	old, silent, web := config.Clone(), config.Clone(), config.Clone()
	old.MaxVersion, old.NextProtos = tls.VersionTLS12, []string{alpn}
	web.NextProtos = []string{"h2"}
	for _, client := range []*tls.Config{old, silent, web} {
		if conn, err := tls.Dial("tcp", p.Addr(), client); err == nil {
			expectRejection(t, rejections, TLSFailed)
			conn.Close()
			continue
		}
		expectRejection(t, rejections, TLSFailed)
	}
}

func TestATLSHandshakeThatStallsTimesOut(t *testing.T) {
	p, rejections := listen(t, Config{TLS: testutil.NewAuthority(t).TLS(), HandshakeTimeout: 20 * time.Millisecond})
	conn := knock(t, p.Addr(), []byte{22, 3, 1}) // the start of a handshake record
	expectRejection(t, rejections, TimedOut)
	expectClosed(t, conn)
}

func TestListenRefusesTLSWithoutCertificateOrAuthority(t *testing.T) {
	config := testutil.NewAuthority(t).TLS()
	bare := &tls.Config{}
	if _, err := Open(t.Context(), Config{Addr: "127.0.0.1:0", TLS: bare}); !errors.Is(err, ErrNoCertificate) || !errors.Is(err, ErrNoClientCAs) {
		t.Fatal(err)
	}
	config.ClientCAs = nil // the peers' authority is then the one for servers
	p, _ := listen(t, Config{TLS: config})
	p.Handle(KindRows, echo)
	conn, err := Dial(within(t), p.Addr(), KindRows, config)
	if err != nil {
		t.Fatal(err)
	}
	checkEcho(t, conn)
}
