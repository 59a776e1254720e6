package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"
)

// certificate is one that signs itself, for a key.
func certificate(t *testing.T, key *ecdsa.PrivateKey, serial int64) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestTheOwnCertificateIsTheOneThatIsShown(t *testing.T) {
	key, other := newKey(t), newKey(t)
	first, renewed, foreign := certificate(t, key, 1), certificate(t, key, 2), certificate(t, other, 3)
	leaf, err := x509.ParseCertificate(first.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	want := certificateKey(leaf)
	authority, err := x509.ParseCertificate(foreign.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AddCert(authority)
	get := func(c tls.Certificate) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c, nil }
	}
	for name, c := range map[string]*tls.Config{
		"given":             {Certificates: []tls.Certificate{first}},
		"renewed":           {Certificates: []tls.Certificate{renewed}},
		"by a callback":     {Certificates: []tls.Certificate{first}, GetCertificate: get(renewed)},
		"by both callbacks": {GetCertificate: get(first), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &renewed, nil }},
		"by a choice": {Certificates: []tls.Certificate{first}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{renewed}}, nil
		}},
		"of another authority": {Certificates: []tls.Certificate{first}, ClientCAs: authorities},
		"by verifiers that do": {Certificates: []tls.Certificate{first}, VerifyConnection: func(tls.ConnectionState) error { return errors.New("no") }},
	} {
		if got, err := OwnCertificate(c, "node"); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := OwnCertificate(nil, "node"); err != nil || !got.IsZero() {
		t.Errorf("without TLS: %v, %v", got, err)
	}
	if _, err := OwnCertificate(&tls.Config{Certificates: []tls.Certificate{first}, GetCertificate: get(foreign)}, "node"); !errors.Is(err, ErrCertificates) {
		t.Errorf("two keys: %v", err)
	}
	if _, err := OwnCertificate(&tls.Config{GetCertificate: get(first)}, "node"); !errors.Is(err, ErrNoClientCertificate) {
		t.Errorf("nothing to show when it dials: %v", err)
	}
	if _, err := OwnCertificate(&tls.Config{}, "node"); err == nil {
		t.Error("a configuration without a certificate has one")
	}
}

func TestT4ACertificateOfAnotherKeyIsNotTheMembers(t *testing.T) {
	key, other := newKey(t), newKey(t)
	mine := certificate(t, key, 1)
	leaf, err := x509.ParseCertificate(mine.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := x509.ParseCertificate(certificate(t, other, 2).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	server := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{mine}, MinVersion: tls.VersionTLS13})
	go server.Handshake()
	client := tls.Client(here, &tls.Config{InsecureSkipVerify: true})
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := CheckCertificate(client, certificateKey(leaf)); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]Digest{"another key": certificateKey(foreign), "a record without one": {}} {
		if err := CheckCertificate(client, want); !errors.Is(err, ErrUnproven) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckCertificate(here, certificateKey(leaf)); err != nil {
		t.Errorf("a connection without TLS: %v", err)
	}
}

// A name is taken from a certificate that was verified, and a name of one kind cannot be had with
// one of another kind.
func TestACertifiedNameIsOfOneKind(t *testing.T) {
	key := newKey(t)
	uri := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	admin := pkix.Name{CommonName: "admin"}
	for _, c := range []struct {
		name     string
		subject  pkix.Name
		uris     []*url.URL
		dns      []string
		unproven bool
		want     string
	}{
		{name: "a URI", subject: admin, uris: []*url.URL{uri("spiffe://prod/web"), uri("spiffe://prod/db")}, want: "spiffe://prod/web"},
		{name: "a URI like a subject", subject: pkix.Name{CommonName: "guest"}, uris: []*url.URL{uri("CN=admin"), uri("spiffe://prod/guest")}, want: "spiffe://prod/guest"},
		{name: "only a URI like a subject", uris: []*url.URL{uri("CN=admin")}, dns: []string{"guest.example"}, want: "DNS=guest.example"},
		{name: "a subject", subject: admin, dns: []string{"guest.example"}, want: "CN=admin"},
		{name: "a subject like two", subject: pkix.Name{CommonName: "guest,CN=admin"}, want: `CN=guest\,CN=admin`},
		{name: "a subject like a DNS name", subject: pkix.Name{CommonName: "DNS=guest.example"}, want: "CN=DNS=guest.example"},
		{name: "nothing", want: ""},
		{name: "not verified", subject: admin, unproven: true, want: ""},
	} {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: c.subject, URIs: c.uris, DNSNames: c.dns,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(leaf)
		auth := tls.RequireAndVerifyClientCert
		if c.unproven {
			auth = tls.RequireAnyClientCert
		}
		own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
		here, there := net.Pipe()
		server := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: auth})
		client := tls.Client(here, &tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true})
		go client.Handshake()
		if err := server.Handshake(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := CertifiedName(server); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
		here.Close()
		there.Close()
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if got := CertifiedName(here); got != "" {
		t.Errorf("without TLS: %q", got)
	}
}
