package copy

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// minTokenBytes is the length below which a process that listens could guess a token.
const minTokenBytes = 16

// security holds what both commands prove their identity with.
type security struct {
	token []byte      // nil: none
	tls   *tls.Config // nil: none
}

// securityFlags are the flags that say so.
type securityFlags struct {
	tokenFile string
	certs     show.Certificates
}

func (s *securityFlags) declare(f *pflag.FlagSet) {
	f.StringVar(&s.tokenFile, "token-file", "", fmt.Sprintf("`file` with a secret of at least %d characters that pusher and receivers share", minTokenBytes))
	s.certs.Declare(f, ": everything is encrypted, and both ends must show one", "all machines")
}

func (s *securityFlags) load() (got security, err error) {
	var errs []error
	if s.tokenFile != "" {
		got.token, err = readToken(s.tokenFile)
		errs = append(errs, err)
	}
	got.tls, err = s.certs.Load()
	return got, errors.Join(append(errs, err)...)
}

func readToken(path string) ([]byte, error) {
	token, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	if token = bytes.TrimSpace(token); len(token) < minTokenBytes {
		return nil, fmt.Errorf("--token-file %s: %d characters could be guessed; have at least %d, for instance from: head -c 32 /dev/urandom | base64",
			path, len(token), minTokenBytes)
	}
	return token, nil
}

// loopback reports whether only this machine can reach an address.
func loopback(ctx context.Context, addr string) (bool, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, err
	}
	if host == "" {
		return false, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback(), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false, err
	}
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return false, nil
		}
	}
	return true, nil
}

// secret makes a TLS configuration of a token: every process with the token has the same key,
// shows a certificate that this key signed itself, and accepts no other key (C2). It serves both
// sides.
func secret(token []byte) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, token, nil, "squall copy 2 token", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS13, SessionTicketsDisabled: true,
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, // instead, VerifyConnection compares the key, on both sides
		VerifyConnection: func(s tls.ConnectionState) error {
			if !key.Public().(ed25519.PublicKey).Equal(s.PeerCertificates[0].PublicKey) {
				return errToken
			}
			return nil
		},
	}, nil
}
