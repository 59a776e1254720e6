package squall_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// authority signs the certificates of a group's members.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	der, key := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.key = cert, key
	a.pool.AddCert(cert)
	return a
}

// sign makes a key and its certificate for an hour; the first one signs itself.
func (a *authority) sign(c *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// member is a member's configuration: a certificate of its own, and trust in those of this authority.
func (a *authority) member() *tls.Config {
	a.t.Helper()
	der, key := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "member"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: a.pool, ClientCAs: a.pool,
	}
}

func TestAGroupOverTLSDeliversTheSameSequence(t *testing.T) {
	a := newAuthority(t)
	js := newJournals(3)
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Fabric, c.TLS = squall.FabricTCP, a.member()
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 16 << 10, Window: 64, Deliver: js[i].deliver}}
	})
	everybodySends(t, "a", 500, groups...)
	same(t, 1500, js...)
	if link := must(groups[0].Debug().Link(2)); link == "shm" {
		t.Errorf("the link is %s", link)
	}
}

// Whoever shows no certificate, or one that another authority signed, does not get in; the group forms with the real member.
func TestAMemberWithoutACertificateCannotJoin(t *testing.T) {
	a := newAuthority(t)
	impostor := newAuthority(t).member()
	impostor.RootCAs = a.pool
	founder := freeAddr(t)
	open := func(ctx context.Context, id squall.NodeID, c *tls.Config) (*squall.Group, error) {
		cfg := squall.Config{
			Cluster: t.Name(), ID: id, Listen: "127.0.0.1:0", Join: []string{founder}, InitialMembers: 2, Fabric: squall.FabricTCP, TLS: c, Logger: quiet,
			Subgroups: []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}},
		}
		if id == 1 {
			cfg.Listen = founder
		}
		return squall.Open(ctx, cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var groups [2]*squall.Group
	var errs [2]error
	var opening, turnedAway sync.WaitGroup
	opening.Go(func() { groups[0], errs[0] = open(ctx, 1, a.member()) })
	for name, config := range map[string]*tls.Config{
		"plain": nil, "no certificate": {RootCAs: a.pool, ClientCAs: a.pool}, "another authority's": impostor,
	} {
		turnedAway.Go(func() {
			soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			if g, err := open(soon, 2, config); err == nil {
				t.Errorf("%s: joined", name)
				g.Close(ctx)
			}
		})
	}
	turnedAway.Wait()
	opening.Go(func() { groups[1], errs[1] = open(ctx, 2, a.member()) })
	opening.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		defer g.Close(ctx)
	}
	if n := groups[0].Stats().RejectedConnections; n < 2 {
		t.Errorf("%d connections were rejected; two processes tried", n)
	}
	send(t, must(groups[1].Subgroup("a")), "it is me")
}
