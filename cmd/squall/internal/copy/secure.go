package copy

import (
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
	"time"
)

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

// secure encrypts the rest of the conversation under a token. A process with another token can
// neither read it nor send anything that is accepted.
func (t *talk) secure(token []byte, side func(net.Conn, *tls.Config) *tls.Conn) error {
	config, err := secret(token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), greetTime)
	defer cancel()
	conn := side(t.Conn.Conn, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if left := gone(err); errors.Is(left, errSilent) || errors.Is(left, errEnded) {
			return left
		}
		return errToken
	}
	t.Conn = converse(conn, maxGreeting)
	return nil
}

// introduce is the pusher's side of the greetings.
func introduce(conn net.Conn, token []byte) (*talk, greeting, error) {
	t := newTalk(conn)
	var g greeting
	if err := t.say(hello{version}); err != nil {
		return nil, g, err
	}
	if err := t.hear(&g); err != nil {
		return nil, g, err
	}
	switch {
	case g.Version != version:
		return nil, g, fmt.Errorf("%w: it speaks version %d of a push, this command version %d", errVersion, g.Version, version)
	case g.Sealed && token == nil:
		return nil, g, errors.New("it wants a token: give --token-file")
	case !g.Sealed && token != nil:
		return nil, g, errors.New("it has no token, so its identity is unknown: start it with --token-file")
	}
	if token != nil {
		if err := t.secure(token, tls.Client); err != nil {
			return nil, g, err
		}
	}
	t.greeted()
	return t, g, nil
}

// welcome is the receiver's side of the greetings.
func welcome(conn net.Conn, token []byte, rack string) (*talk, error) {
	t := newTalk(conn)
	var h hello
	if err := t.hear(&h); err != nil {
		return nil, err
	}
	if err := t.say(greeting{version, token != nil, rack}); err != nil {
		return nil, err
	}
	if h.Version != version {
		return nil, fmt.Errorf("%w: the pusher speaks version %d, this command version %d", errVersion, h.Version, version)
	}
	if token != nil {
		if err := t.secure(token, tls.Server); err != nil {
			return nil, err
		}
	}
	t.greeted()
	return t, nil
}
