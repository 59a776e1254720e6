package join

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/views"
)

func TestValidateReportsAllFaultsAtOnce(t *testing.T) {
	_, err := Join(context.Background(), Config{
		Cluster: strings.Repeat("x", 300), Join: []string{"nowhere"}, Expect: 65,
		Declarations: []views.Declaration{{Name: "orders", RingBytes: 5, Window: 64}},
	})
	for _, part := range []string{"65 members", "no port", "300 bytes", `"orders"`, "nowhere"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not name %s", err, part)
		}
	}
	c := cluster(t, 1)[0].Config
	c.Self.Addr = "10.0.0.1:1"
	if _, err := Join(context.Background(), c); err == nil || !strings.Contains(err.Error(), c.Port.Addr()) {
		t.Errorf("an address that is not the port's: %v", err)
	}
}

func TestEventsReadAsSentences(t *testing.T) {
	v := &views.View{ID: 1, Members: []views.Member{member(1), member(2)}}
	why := errors.New("why")
	for _, c := range []struct {
		event Event
		want  string
	}{
		{JoinRequested{member(2), 2, 3}, "node 2 at 10.0.0.2:7000 asked: 2 of 3"},
		{Refused{2, "a:1", "no", true}, "node 2 at a:1 refused: no"},
		{Refused{2, "a:1", "busy", false}, "node 2 at a:1 told to ask again: busy"},
		{Forgotten{member(2), why}, "node 2 at 10.0.0.2:7000 forgotten: why"},
		{ViewProposed{v}, "view 1 proposed: node 1 at 10.0.0.1:7000, node 2 at 10.0.0.2:7000"},
		{ViewInstalled{v}, "view 1 installed: node 1 at 10.0.0.1:7000, node 2 at 10.0.0.2:7000"},
		{Aborted{why}, "why"},
		{AttemptFailed{"a:1", why}, "asking a:1 failed: why"},
		{Held{"a:1"}, "place held at a:1"},
		{Redirected{"a:1", "b:1"}, "redirected from a:1 to b:1"},
		{Applied{member(2)}, "node 2 at 10.0.0.2:7000 asked to join"},
		{Meeting{"a:1", 3, 2}, "sent by a:1 to greet 2 other members of view 3"},
		{Reached{member(2), 3}, "node 2 at 10.0.0.2:7000 reached all members of view 3"},
		{Admitted{member(2), 4}, "node 2 at 10.0.0.2:7000 is a member from view 4 on"},
	} {
		if got := c.event.String(); got != c.want {
			t.Errorf("%T: %q, want %q", c.event, got, c.want)
		}
	}
}

func TestGroupsFormOverMutualTLS(t *testing.T) {
	config := selfSigned(t)
	all := cluster(t, 3)
	for i, p := range all {
		secure, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0", TLS: config})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { secure.Close() })
		if p.Port, p.TLS = secure, config; i > 0 {
			p.Join = []string{all[0].Port.Addr()}
		}
	}
	sessions := proposedTo(t, all)
	sessions[2].Abort(errors.New("no route"))
	for _, err := range ready(t, sessions) {
		expectError(t, err, ErrAborted, "node 3 at", "no route")
	}
	installedOn(t, all)
}

// selfSigned is one certificate for all nodes that is its own authority.
func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool}
}
