package logwire

import (
	"errors"
	"fmt"
	"net"

	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// Kinds of frames, besides those of all conversations. Messages are the messages of a greeting, and
// requests.
const (
	kindRecords = wire.FirstOwn + iota // records; the last one may go on in the next frames
	kindMore                           // of its data
	kindInfo                           // JSON: one log
	kindMark                           // JSON: one record without its data
)

const (
	// frameBytes is what a frame of records or of a snapshot is filled up to.
	frameBytes = 512 << 10
	// maxFrameBytes bounds the frames that a reader takes.
	maxFrameBytes = 1 << 20
	// maxRequestBytes bounds the requests that a member takes. A name has 256 bytes at most, which
	// JSON may make sixfold.
	maxRequestBytes = 8 << 10
)

// challenge is what a member says first.
type challenge struct {
	Format int         `json:"format"`
	Nonce  trust.Nonce `json:"nonce"`
}

// hello is what a reader says about itself.
type hello struct {
	Format  int         `json:"format"`
	Cluster string      `json:"cluster,omitempty"` // that the member must belong to; empty: whichever it is
	Group   string      `json:"group,omitempty"`   // of which the reader is; empty: of none
	Nonce   trust.Nonce `json:"nonce"`
	Proof   []byte      `json:"proof,omitempty"` // that the reader knows the group's secret
}

// welcome is the answer. With a code, the reader is not admitted.
type welcome struct {
	Code  string `json:"code,omitempty"`
	Text  string `json:"text,omitempty"`
	Group string `json:"group,omitempty"` // whose logs these are
	Proof []byte `json:"proof,omitempty"` // that the member knows the group's secret
}

// Uses of the group's secret: one for each side, so that what one said proves nothing of the other.
const (
	proofOfReader = "squall log reader"
	proofOfMember = "squall log member"
)

// about is what a proof is about: the nonce of the side that it is for, and that of the side that
// makes it.
func about(theirs, own trust.Nonce) []byte {
	return append(append([]byte(nil), theirs[:]...), own[:]...)
}

// greet is the member's side of a greeting. Its error says why the reader is not admitted.
func (s *Server) greet(c *wire.Conn) error {
	c.Greet()
	defer c.Greeted()
	mine, theirs := challenge{formatVersion, trust.NewNonce()}, hello{}
	if err := c.Say(mine); err != nil {
		return err
	}
	if err := c.Hear(&theirs); err != nil {
		return err
	}
	var w welcome
	var secret views.Secret
	if s.cfg.Identity != nil {
		w.Group, secret = s.cfg.Identity()
	}
	err := s.judge(c.Conn, theirs, mine.Nonce, secret)
	if err != nil {
		w.Code, w.Text = codeOf(err), wire.Clip(err.Error(), maxTextBytes)
	} else if !secret.IsZero() {
		w.Proof = secret.Sum(proofOfMember, about(theirs.Nonce, mine.Nonce))
	}
	if said := c.Say(w); err == nil {
		err = said
	}
	return err
}

// judge decides whether a reader is admitted (LW6). A member without a secret has nothing to
// compare a proof with: its group has had no view since it began, or since it came back from views
// of an earlier format.
func (s *Server) judge(conn net.Conn, h hello, nonce trust.Nonce, secret views.Secret) error {
	_, certified := trust.PeerCertificate(conn)
	switch {
	case h.Format != formatVersion:
		return fmt.Errorf("%w: it has %d, this member %d", ErrFormat, h.Format, formatVersion)
	case h.Cluster != "" && h.Cluster != s.cfg.Cluster:
		return fmt.Errorf("%w: this is %q, not %q", ErrOtherCluster, s.cfg.Cluster, h.Cluster)
	case s.cfg.Open, certified, secret.IsZero(), secret.Verify(proofOfReader, about(nonce, h.Nonce), h.Proof):
		return nil
	}
	return ErrNotAdmitted
}

// refused reports whether a greeting ended with a refusal.
func refused(err error) bool {
	return errors.Is(err, ErrNotAdmitted) || errors.Is(err, ErrFormat) || errors.Is(err, ErrOtherCluster)
}

// greet is the reader's side, and returns the group that the member names. A reader of a group
// believes no other one, and no member that does not know the secret (LW5).
func (c *Client) greet(on *wire.Conn) (group string, err error) {
	on.Greet()
	defer on.Greeted()
	var theirs challenge
	if err := on.Hear(&theirs); err != nil {
		return "", err
	}
	if theirs.Format != formatVersion {
		return "", fmt.Errorf("%w: it has %d, this side %d", ErrFormat, theirs.Format, formatVersion)
	}
	mine := hello{Format: formatVersion, Cluster: c.Cluster, Group: c.Group, Nonce: trust.NewNonce()}
	if !c.Secret.IsZero() {
		mine.Proof = c.Secret.Sum(proofOfReader, about(theirs.Nonce, mine.Nonce))
	}
	if err := on.Say(mine); err != nil {
		return "", err
	}
	var w welcome
	if err := on.Hear(&w); err != nil {
		return "", err
	}
	group = wire.Clip(w.Group, maxTextBytes)
	other := views.OtherHistory("the member", c.Group, group)
	switch {
	case w.Code != "" && c.Group != "" && (w.Group != c.Group || w.Code == codeOf(ErrNotAdmitted)): // it knows another secret
		return "", fmt.Errorf("%w: %w", other, fromRemote(w.Code, w.Text))
	case w.Code != "":
		return "", fromRemote(w.Code, w.Text)
	case c.Group != "" && (w.Group != c.Group || !c.Secret.Verify(proofOfMember, about(mine.Nonce, theirs.Nonce), w.Proof)):
		return "", other
	}
	return group, nil
}
