package join

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// request is a joiner's first message.
type request struct {
	Cluster      string              `json:"cluster"`
	Member       views.Member        `json:"member"`
	Expect       int                 `json:"expect"`
	Declarations []views.Declaration `json:"declarations"`
	Nonce        string              `json:"nonce,omitempty"` // by which a process knows a request as its own
}

// verb names a message that follows a request.
type verb string

// Founder to joiner. All but wait and view end the conversation.
const (
	sayWait     verb = "wait"     // the place is held
	sayView     verb = "view"     // with View
	sayInstall  verb = "install"  // everybody is ready
	sayAbort    verb = "abort"    // with Text: who failed, and why
	sayRefuse   verb = "refuse"   // with Text; final
	sayFormed   verb = "formed"   // with Text; final
	sayLater    verb = "later"    // with Text; ask again
	sayRedirect verb = "redirect" // with Addr, the founder's
)

// Joiner to founder, besides abort.
const sayReady verb = "ready"

// message is what both sides say after the request.
type message struct {
	Verb verb        `json:"verb"`
	Text string      `json:"text,omitempty"`
	Addr string      `json:"addr,omitempty"`
	View *views.View `json:"view,omitempty"`
}

// last reports whether nothing follows the message.
func (m message) last() bool { return m.Verb != sayWait && m.Verb != sayView && m.Verb != sayReady }

// saying is a message with a text that is cut to a bounded length.
func saying(v verb, format string, args ...any) message {
	return message{Verb: v, Text: clip(fmt.Sprintf(format, args...))}
}

// clip bounds a text that goes into a message or an error.
func clip(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextBytes], "") + "…"
}

// checkMember says what is wrong with a record that came over the wire.
func checkMember(m views.Member) error {
	var errs []error
	if len(m.Addr) > maxNameBytes || len(m.Host) > maxNameBytes || len(m.Shm) > maxNameBytes {
		errs = append(errs, fmt.Errorf("node %d: a string of its record is longer than %d bytes", m.ID, maxNameBytes))
	} else if _, _, err := net.SplitHostPort(m.Addr); err != nil {
		errs = append(errs, fmt.Errorf("node %d: address %q: %w", m.ID, m.Addr, err))
	}
	return errors.Join(errs...)
}

func node(id order.NodeID, addr string) string { return fmt.Sprintf("node %d at %s", id, addr) }

// roster lists members for people.
func roster(members []views.Member) string {
	var names []string
	for _, m := range members {
		names = append(names, node(m.ID, m.Addr))
	}
	return strings.Join(names, ", ")
}
