package rdmc

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/squall-go/squall/order"
)

// mutual is a configuration in which everybody shows a certificate that signs itself.
func mutual(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool}
}

func TestNodesOfTheirOwnTalkThroughTLS(t *testing.T) {
	config := mutual(t)
	w := &world{t: t}
	for i := range 3 {
		n, err := Listen("127.0.0.1:0", order.NodeID(i+1), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		w.nodes, w.peers = append(w.nodes, n), append(w.peers, n.Peer())
	}
	all := w.open("g", GroupConfig{BlockBytes: 100_000})
	want := noise(1, 3_000_000)
	if err := all[0].Send(within(t), want); err != nil {
		t.Fatal(err)
	}
	closeAll(t, all)
	for _, x := range all[1:] {
		if !bytes.Equal(receive(t, x.messages, "message").Data, want) {
			t.Fatal("the message differs")
		}
	}
}
