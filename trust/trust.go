package trust

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// ErrUnproven is returned if a process did not prove its claimed identity.
var ErrUnproven = errors.New("the process does not prove its identity")

// ErrSecret says that two processes do not know the same secret.
var ErrSecret = errors.New("the secrets of the two processes differ, or only one of them has one: set the same Config.Secret at both")

// Digest is 32 bytes with a text form of 43 characters, base64url without padding. The zero value
// means that there is none.
type Digest [32]byte

// PublicKey is the public half of an Identity.
type PublicKey = Digest

// MAC authenticates a message.
type MAC = Digest

// Nonce is a random number that is used once.
type Nonce = Digest

// NewNonce makes a nonce.
func NewNonce() (n Nonce) {
	_, _ = rand.Read(n[:]) // it does not fail: the program ends before that
	return n
}

// IsZero reports whether there is no digest.
func (d Digest) IsZero() bool { return d == Digest{} }

func (d Digest) String() string { return base64.RawURLEncoding.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts what MarshalText returns and nothing else.
func (d *Digest) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(text[:min(len(text), 64)]))
	if err != nil || len(b) != len(d) {
		return fmt.Errorf("%d characters that are not 32 bytes of base64url", len(text))
	}
	copy(d[:], b)
	return nil
}

// Identity is the key pair of a process. The private key never leaves the process's memory. Its
// methods may be called from any goroutine.
type Identity struct {
	private *ecdh.PrivateKey
	public  PublicKey

	mu      sync.Mutex
	secrets map[PublicKey][]byte // with others, so that each is computed once
}

// maxSecrets bounds what is remembered: several views of the largest group.
const maxSecrets = 256

// NewIdentity makes a key pair.
func NewIdentity() *Identity {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		panic(fmt.Sprintf("trust: the system has no random numbers: %v", err)) // crypto/rand ends the program before that
	}
	i := &Identity{private: private, secrets: map[PublicKey][]byte{}}
	copy(i.public[:], private.PublicKey().Bytes())
	return i
}

// PublicKey is what others need to know.
func (i *Identity) PublicKey() PublicKey { return i.public }

// secret is what this process and the owner of a public key have in common.
func (i *Identity) secret(with PublicKey) ([]byte, error) {
	i.mu.Lock()
	known := i.secrets[with]
	i.mu.Unlock()
	if known != nil {
		return known, nil
	}
	public, err := ecdh.X25519().NewPublicKey(with[:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	secret, err := i.private.ECDH(public) // fails for keys that give every process the same secret
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.secrets) >= maxSecrets {
		clear(i.secrets)
	}
	i.secrets[with] = secret
	return secret, nil
}

// Party is a process as its peers know it.
type Party struct {
	Node        uint64
	Incarnation uint64
	PublicKey   PublicKey
}

// Fingerprint stands for the party without telling its incarnation.
func (p Party) Fingerprint() Digest {
	return sha256.Sum256(fields([]byte("squall party 1"), p.bytes()))
}

// Scope is where a key is valid: in one view of one group, or, with less filled in, before there is
// a view.
type Scope struct {
	Group   string // the group's identity
	Cluster string
	View    uint64
	Key     string // of the view: a secret of its members
}

// Purpose separates keys, so that a message of one conversation means nothing in another one.
type Purpose string

// Purposes.
const (
	Rows   Purpose = "rows"   // connections for rows
	State  Purpose = "state"  // transfer of states
	Blocks Purpose = "blocks" // large messages
	Greet  Purpose = "greet"  // joining
)

// Key authenticates what two processes say to each other.
type Key [32]byte

// KeyOf returns the key that follows from a secret, for one use of it.
func KeyOf(use string, secret []byte) Key { return sha256.Sum256(append([]byte(use), secret...)) }

// Key returns the key that this process, self, shares with a peer (T1).
func (i *Identity) Key(p Purpose, s Scope, self, peer Party) (k Key, err error) {
	if self.PublicKey != i.public {
		return k, fmt.Errorf("%w: node %d is not this process", ErrUnproven, self.Node)
	}
	secret, err := i.secret(peer.PublicKey)
	if err != nil {
		return k, fmt.Errorf("node %d: %w", peer.Node, err)
	}
	first, second := self, peer
	if second.before(first) {
		first, second = second, first
	}
	info := fields([]byte("squall pair 1"), []byte(p), []byte(s.Group), []byte(s.Cluster), word(s.View), []byte(s.Key), first.bytes(), second.bytes())
	b, err := hkdf.Key(sha256.New, secret, nil, string(info), len(k))
	if err != nil {
		return k, err
	}
	copy(k[:], b)
	return k, nil
}

// before orders the two parties of a pair, so that both take them in the same order.
func (p Party) before(o Party) bool {
	if p.Node != o.Node {
		return p.Node < o.Node
	}
	return string(p.bytes()) < string(o.bytes())
}

func (p Party) bytes() []byte {
	return append(append(word(p.Node), word(p.Incarnation)...), p.PublicKey[:]...)
}

func word(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// fields joins byte strings so that no two lists give the same bytes.
func fields(list ...[]byte) (all []byte) {
	for _, f := range list {
		all = append(append(all, word(uint64(len(f)))...), f...)
	}
	return all
}

// Side is the side of a greeting that speaks (T3).
type Side string

// Sides of a connection.
const (
	Dialer   Side = "dialer"
	Listener Side = "listener"
)

// MAC authenticates values that a side says: as the JSON that both sides make of them.
func (k Key) MAC(s Side, values ...any) (m MAC) {
	h := hmac.New(sha256.New, k[:])
	h.Write(fields([]byte(s)))
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("trust: %T has no JSON: %v", v, err)) // greetings are plain data
		}
		h.Write(fields(text))
	}
	h.Sum(m[:0])
	return m
}

// Check compares a MAC that came from a peer, in constant time.
func (k Key) Check(m MAC, s Side, values ...any) error {
	want := k.MAC(s, values...)
	if !hmac.Equal(m[:], want[:]) {
		return ErrUnproven
	}
	return nil
}

// Tag names a view to its members without telling its key: callers are sorted by it before they are
// checked.
func (s Scope) Tag() string {
	h := hmac.New(sha256.New, []byte(s.Key))
	h.Write(fields([]byte("squall view 1"), []byte(s.Group), []byte(s.Cluster), word(s.View)))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}
