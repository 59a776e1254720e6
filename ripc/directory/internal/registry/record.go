package registry

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// Time is a time of the directory, or a duration, in milliseconds.
type Time uint64

// Action is what an owner wants with a record.
type Action uint8

// Actions.
const (
	Claim    Action = iota + 1 // the service is at this place from now on
	Renew                      // it is still there
	Withdraw                   // it is not there any more
)

// Place is where an endpoint is.
type Place struct {
	Incarnation string `json:"incarnation,omitempty"`
	Host        string `json:"host,omitempty"`
	Socket      string `json:"socket,omitempty"`
	Addr        string `json:"addr,omitempty"`
}

// Record is what an owner says about a name. The signature covers all other fields.
type Record struct {
	Realm     string `json:"realm"` // of the directory to which it is said
	Action    Action `json:"action"`
	Name      string `json:"name"`
	Place     Place  `json:"place"`
	Shared    bool   `json:"shared,omitempty"` // others may have the service too
	Until     Time   `json:"until"`            // the end of the lease; nothing is done with the record afterwards
	Hold      Time   `json:"hold,omitempty"`   // how long the name stays the owner's after the lease
	Number    uint64 `json:"number"`           // greater than the numbers of earlier records
	Key       []byte `json:"key,omitempty"`    // ed25519; empty if an identity speaks
	Signature []byte `json:"signature,omitempty"`
}

// text is what is signed: every field with its length, so that no two records have the same.
func (r *Record) text() []byte {
	b := []byte("squall directory record 1\x00")
	for _, s := range []string{r.Realm, r.Name, r.Place.Incarnation, r.Place.Host, r.Place.Socket, r.Place.Addr, string(r.Key)} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	shared := byte(0)
	if r.Shared {
		shared = 1
	}
	b = append(b, byte(r.Action), shared)
	for _, v := range []uint64{uint64(r.Until), uint64(r.Hold), r.Number} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// Sign has a key speak the record.
func (r *Record) Sign(key ed25519.PrivateKey) {
	r.Key = key.Public().(ed25519.PublicKey)
	r.Signature = ed25519.Sign(key, r.text())
}

// ErrForged says that a record is not signed by its key.
var ErrForged = errors.New("the signature is not the key's")

// Limits of a record.
const (
	MaxName  = 255
	MaxField = 255 // of a place
)

// Check reports what is wrong with a record by itself: its form, and its signature if a key speaks.
func (r *Record) Check() error {
	switch {
	case r.Action < Claim || r.Action > Withdraw:
		return fmt.Errorf("action %d", r.Action)
	case r.Name == "" || len(r.Name) > MaxName:
		return fmt.Errorf("a name of %d bytes: 1 to %d", len(r.Name), MaxName)
	case max(len(r.Realm), len(r.Place.Incarnation), len(r.Place.Host), len(r.Place.Socket), len(r.Place.Addr)) > MaxField:
		return fmt.Errorf("a field of more than %d bytes", MaxField)
	case r.Place.Incarnation == "":
		return errors.New("a place without an incarnation")
	case len(r.Key) == 0:
		return nil
	case len(r.Key) != ed25519.PublicKeySize || !ed25519.Verify(r.Key, r.text(), r.Signature):
		return ErrForged
	}
	return nil
}

// KeyOwner is the owner that a key proves.
func KeyOwner(key []byte) string { return "key " + hex.EncodeToString(key) }

// IdentityOwner is the owner that a certificate proves.
func IdentityOwner(identity string) string { return "identity " + identity }

// MemberOwner owns the names that begin with Reserved: the members of the directory's group.
const MemberOwner = "members"

// Reserved begins the names that only members may claim.
const Reserved = "squall/"
