package views

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// A group has an identity: a random name that its first member made, View.Group, and a secret that
// its members alone know, View.Secret. Every later view has the same two. Two groups may have one
// name (Cluster); they never have one identity.
//
// View.Lineage is the end of the chain of views: a link for each of the last views, the newest
// last.
//
//	link(v) = the first 8 bytes of SHA-256("squall view", link(view before v), key of v), in hex
//
// So two views of one group that are less than maxLinks apart show whether one of them follows from
// the other. A group has two branches only if an operator copied the directories of its members.
const (
	linkDigits = 16 // hex digits of a link
	maxLinks   = MaxTextBytes / linkDigits
)

// Secret is a text that only the members of a group know. It has no JSON form and prints as
// nothing, so that it stays out of logs and of what applications make of a View; Reveal is for the
// places that hand it on.
type Secret struct{ text string }

// NewSecret makes a secret of a text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text of the secret.
func (s Secret) Reveal() string { return s.text }

// String hides the secret.
func (s Secret) String() string { return "" }

// Format hides the secret, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) {}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == "" }

// Sum authenticates a text among the processes that know the secret. Use keeps the sums of
// different uses apart.
func (s Secret) Sum(use string, text []byte) []byte {
	mac := hmac.New(sha256.New, []byte(s.text))
	mac.Write(append(append(strconv.AppendInt(nil, int64(len(use)), 10), ' '), use...))
	mac.Write([]byte{' '})
	mac.Write(text)
	return mac.Sum(nil)
}

// Verify reports whether a sum is that of a text. Without a secret it is false.
func (s Secret) Verify(use string, text, sum []byte) bool {
	return !s.IsZero() && hmac.Equal(s.Sum(use, text), sum)
}

// Bootstrap gives a first view the identity of its group.
func (v *View) Bootstrap(group string, secret Secret) {
	v.Group, v.Secret = group, secret
	v.Lineage = link("", v.key)
}

// Follow gives a view the identity of the view before it, and its place in the chain. A view before
// that has none, of an earlier format, leaves it without one.
func (v *View) Follow(previous *View) {
	v.Group, v.Secret, v.Lineage = previous.Group, previous.Secret, previous.lineage(v.key)
}

// lineage is the chain with the key of the next view.
func (v *View) lineage(key string) string {
	if v.Group == "" {
		return ""
	}
	links := v.links()
	before := ""
	if len(links) > 0 {
		before = links[len(links)-1]
	}
	return strings.Join(append(links[max(0, len(links)-maxLinks+1):], link(before, key)), "")
}

func link(before, key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "squall view %d %s %d %s", len(before), before, len(key), key))
	return hex.EncodeToString(sum[:])[:linkDigits]
}

func (v *View) links() (links []string) {
	for at := 0; at+linkDigits <= len(v.Lineage); at += linkDigits {
		links = append(links, v.Lineage[at:at+linkDigits])
	}
	return links
}

// Follows reports whether a view has the identity of the view before it, and its place in the
// chain.
func (v *View) Follows(previous *View) bool {
	return v.Group == previous.Group && v.Lineage == previous.lineage(v.key)
}

// Kin reports whether two views can be of one history: of one group, and on one branch of it as far
// as their chains tell. A view without a group, of an earlier format, can be of any.
func (v *View) Kin(other *View) bool {
	if v.Group == "" || other.Group == "" {
		return true
	}
	if v.Group != other.Group {
		return false
	}
	old, young := v, other
	if old.ID > young.ID {
		old, young = young, old
	}
	links, last := young.links(), old.links()
	back := uint64(young.ID - old.ID)
	if len(last) == 0 || back >= uint64(len(links)) {
		return true // they are too far apart
	}
	return links[len(links)-1-int(back)] == last[len(last)-1]
}
