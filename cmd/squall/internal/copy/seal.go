package copy

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// sealBytes is by how much a sealed frame is longer.
const sealBytes = 16

// nonceBytes is the size of the random part that each side adds to a conversation's keys.
const nonceBytes = 32

// sealer encrypts, or decrypts, the frames of one direction. Their number is the nonce, so none can be repeated, left out or moved.
type sealer struct {
	aead  cipher.AEAD
	count uint64
}

// newSealer derives the key of one direction from the token and what both sides made up for this conversation.
func newSealer(token, nonces []byte, direction string) (*sealer, error) {
	key, err := hkdf.Key(sha256.New, token, nonces, "squall copy 1 "+direction, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &sealer{aead: aead}, err
}

func (s *sealer) nonce() []byte {
	n := binary.BigEndian.AppendUint64(make([]byte, 4, 12), s.count)
	s.count++
	return n
}

func (s *sealer) seal(to, body []byte) []byte { return s.aead.Seal(to, s.nonce(), body, nil) }

func (s *sealer) open(frame []byte) ([]byte, error) {
	body, err := s.aead.Open(frame[:0], s.nonce(), frame, nil)
	if err != nil {
		return nil, errToken
	}
	return body, nil
}

// Directions of a conversation.
const (
	fromPusher   = "pusher"
	fromReceiver = "receiver"
)

// secure seals everything from here on. Who has another token can say nothing that the other side understands (C2).
func (t *talk) secure(token, nonces []byte, out, in string) error {
	var errOut, errIn error
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outbound, errOut = newSealer(token, nonces, out)
	t.inbound, errIn = newSealer(token, nonces, in)
	return errors.Join(errOut, errIn)
}

func newNonce() []byte {
	n := make([]byte, nonceBytes)
	rand.Read(n) // it does not fail: the process would end
	return n
}

// introduce is the pusher's side of the greetings.
func introduce(conn net.Conn, token []byte) (*talk, greeting, error) {
	t := newTalk(conn)
	var g greeting
	_ = conn.SetDeadline(time.Now().Add(greetTime))
	own := newNonce()
	if err := t.say(hello{version, own}); err != nil {
		return nil, g, err
	}
	if err := t.hear(&g, maxGreeting); err != nil {
		return nil, g, err
	}
	switch {
	case g.Version != version:
		return nil, g, fmt.Errorf("%w: it speaks version %d of a push, this command version %d", errVersion, g.Version, version)
	case len(g.Nonce) != nonceBytes:
		return nil, g, fmt.Errorf("%w: a nonce of %d bytes", errFrame, len(g.Nonce))
	case g.Sealed && token == nil:
		return nil, g, errors.New("it wants a token: give --token-file")
	case !g.Sealed && token != nil:
		return nil, g, errors.New("it has no token, so it may be anybody: start it with --token-file")
	}
	if token != nil {
		if err := t.secure(token, slices.Concat(own, g.Nonce), fromPusher, fromReceiver); err != nil {
			return nil, g, err
		}
	}
	t.pulse()
	return t, g, nil
}

// welcome is the receiver's side of the greetings.
func welcome(conn net.Conn, token []byte, rack string) (*talk, error) {
	t := newTalk(conn)
	_ = conn.SetDeadline(time.Now().Add(greetTime))
	var h hello
	if err := t.hear(&h, maxGreeting); err != nil {
		return nil, err
	}
	own := newNonce()
	if err := t.say(greeting{version, own, token != nil, rack}); err != nil {
		return nil, err
	}
	switch {
	case h.Version != version:
		return nil, fmt.Errorf("%w: the pusher speaks version %d, this command version %d", errVersion, h.Version, version)
	case len(h.Nonce) != nonceBytes:
		return nil, fmt.Errorf("%w: a nonce of %d bytes", errFrame, len(h.Nonce))
	}
	if token != nil {
		if err := t.secure(token, slices.Concat(h.Nonce, own), fromReceiver, fromPusher); err != nil {
			return nil, err
		}
	}
	t.pulse()
	return t, nil
}
