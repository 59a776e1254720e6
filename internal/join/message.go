package join

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// Request is the first message of a conversation: the intent and the identity of the process that
// dialed.
type Request struct {
	Verb         Verb                `json:"verb,omitempty"` // Apply, Greet or Inquire
	Cluster      string              `json:"cluster"`
	Member       views.Member        `json:"member"`
	Expect       int                 `json:"expect,omitempty"`       // of an application: for the first view only
	Declarations []views.Declaration `json:"declarations,omitempty"` // of an application and of a greeting
	Nonce        string              `json:"nonce,omitempty"`        // of an application: by which a process knows it as its own; of an inquiry: what Proof is about
	Group        string              `json:"group,omitempty"`        // of which the process was a member, as its directory says; empty: of none
	Secured      bool                `json:"secured,omitempty"`      // the process has a secret in common with the members
	// Salt is random, and MAC of the challenge and all of the request: by it the process shows that
	// Member is its own record. An inquiry shows nothing.
	Salt trust.Nonce `json:"salt,omitzero"`
	MAC  trust.MAC   `json:"mac,omitzero"`
}

// Verb names a message.
type Verb string

// What a Request can want.
const (
	Apply   Verb = ""        // to become a member, of the first view or of a later one
	Greet   Verb = "greet"   // to show a member that it is within reach, before it is proposed as another member
	Inquire Verb = "inquire" // to know whether this is a member of a group
)

// What follows a Request. Which side says it, and when, is drawn in the package comment.
const (
	sayWait     Verb = "wait"     // the place, or the request, is held
	sayMeet     Verb = "meet"     // with ViewID, Members and Group: greet these
	sayGreeted  Verb = "greeted"  // the answer to Greet, with ViewID and Proof; again with every view that is installed there
	sayReady    Verb = "ready"    // before the first view: the links stand; later, with ViewID and Proofs: its members were greeted
	sayStill    Verb = "still"    // nothing new, but the conversation lives
	sayView     Verb = "view"     // with View: the first one is proposed, a later one installed
	sayInstall  Verb = "install"  // all processes are ready
	sayMember   Verb = "member"   // the answer to Inquire, with Addr, the leader's: this is a member of a group
	sayAbort    Verb = "abort"    // with Text: the process that gave up, and its reason
	sayRefuse   Verb = "refuse"   // with Text; final
	sayLater    Verb = "later"    // with Text; ask again
	sayRedirect Verb = "redirect" // with Addr: ask there
	sayOther    Verb = "other"    // with Group: this is another group than that of the request
)

// Message is what both sides say after the request.
type Message struct {
	Verb    Verb         `json:"verb"`
	Text    string       `json:"text,omitempty"`
	Addr    string       `json:"addr,omitempty"`
	ViewID  order.ViewID `json:"view_id,omitempty"`
	Members []Met        `json:"members,omitempty"`
	View    *views.View  `json:"view,omitempty"`
	MAC     trust.MAC    `json:"mac,omitzero"`     // of the first message: of the request, and all of the message
	Secret  string       `json:"secret,omitempty"` // of the view's group
	Group   string       `json:"group,omitempty"`  // of meet, member and other
	Proof   []byte       `json:"proof,omitempty"`  // of member: that it knows the group's secret
	Word    string       `json:"word,omitempty"`   // of greeted: the member's word about the joiner
	Words   []Word       `json:"words,omitempty"`  // of ready
}

// showing is the message that tells a process the view that it is a member of.
func showing(v *views.View) Message {
	return Message{Verb: sayView, View: v, Secret: v.Secret.Reveal()}
}

// shown is the view of such a message, with the secret of its group.
func (m Message) shown() *views.View {
	if m.View == nil {
		return nil
	}
	if secret := views.NewSecret(m.Secret); secret != m.View.Secret {
		v := *m.View
		v.Secret = secret
		return &v
	}
	return m.View
}

// other is the answer to a process that was a member of another group.
func other(group string) Message {
	return Message{Verb: sayOther, Group: group, Text: fmt.Sprintf("this is group %.64q", group)}
}

// Met is a member that a joiner is sent to greet, as far as one that is no member may know it.
type Met struct {
	ID   order.NodeID `json:"id"`
	Addr string       `json:"addr"`
	// Fingerprint tells a node's processes apart without telling their incarnations. A host that
	// lost power breaks no conversation: only by its fingerprint is a joiner told that it greeted
	// the process before this one.
	Fingerprint trust.Digest `json:"fingerprint,omitzero"`
	// PublicKey and Certificate are from the member's record: the greeted process proves that it
	// has the private keys.
	PublicKey   trust.PublicKey `json:"public_key,omitzero"`
	Certificate trust.Digest    `json:"certificate,omitzero"`
}

func metAs(m views.Member) Met {
	return Met{ID: m.ID, Addr: m.Addr, Fingerprint: fingerprint(m), PublicKey: m.PublicKey, Certificate: m.Certificate}
}

func (m Met) record() views.Member { return views.Member{ID: m.ID, Addr: m.Addr} }

func records(members []Met) (all []views.Member) {
	for _, m := range members {
		all = append(all, m.record())
	}
	return all
}

// String is for traces.
func (m Message) String() string {
	switch m.Verb {
	case sayMeet:
		return fmt.Sprintf("meet in view %d: %s", m.ViewID, roster(records(m.Members)))
	case sayReady:
		return fmt.Sprintf("ready for view %d", m.ViewID)
	case sayView:
		if m.View != nil {
			return fmt.Sprintf("view %d", m.View.ID)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s%s", m.Verb, m.Addr, m.Text))
}

// String is for traces.
func (q Request) String() string {
	return fmt.Sprintf("%s of %s", cmp.Or(q.Verb, "application"), node(q.Member.ID, q.Member.Addr))
}

// last reports whether nothing follows the message in the forming of the first view.
func (m Message) last() bool {
	switch m.Verb {
	case sayWait, sayView, sayReady, sayStill:
		return false
	}
	return true
}

// saying is a message with a text that is cut to a bounded length.
func saying(v Verb, format string, args ...any) Message {
	return Message{Verb: v, Text: clip(fmt.Sprintf(format, args...))}
}

// clip bounds a text that goes into a message or an error.
func clip(text string) string { return wire.Clip(text, maxTextBytes) }

// checkMember says what is wrong with a record that came over the wire.
func checkMember(m views.Member) error {
	var errs []error
	if m.ID == 0 {
		errs = append(errs, errors.New("node id 0 is none"))
	}
	if len(m.Addr) > views.MaxTextBytes || len(m.Host) > views.MaxTextBytes || len(m.SHM) > views.MaxTextBytes {
		errs = append(errs, fmt.Errorf("node %d: a string of its record is longer than %d bytes", m.ID, views.MaxTextBytes))
	} else if _, _, err := net.SplitHostPort(m.Addr); err != nil {
		errs = append(errs, fmt.Errorf("node %d: address %q: %w", m.ID, m.Addr, err))
	}
	if len(errs) == 0 && !viewchange.Small(m) {
		errs = append(errs, fmt.Errorf("node %d: its record is too large: address, host or socket are full of characters that JSON escapes", m.ID))
	}
	return errors.Join(errs...)
}

// sameProcess reports whether two records are of one process: one that was started again has the
// id, but neither the incarnation nor the key.
func sameProcess(a, b views.Member) bool { return a.Party() == b.Party() }

// has reports whether a process is a member of a view.
func has(v *views.View, m views.Member) bool {
	r, ok := v.RankOf(m.ID)
	return ok && sameProcess(v.Members[r], m)
}

func node(id order.NodeID, addr string) string { return fmt.Sprintf("node %d at %s", id, clip(addr)) }

// roster lists members for people.
func roster(members []views.Member) string {
	var names []string
	for _, m := range members {
		names = append(names, node(m.ID, m.Addr))
	}
	return strings.Join(names, ", ")
}
