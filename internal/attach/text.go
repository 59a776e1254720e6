package attach

import (
	"fmt"
	"strings"
)

// String is what the node knows, a line for each link and for each tie.
func (n *Node) String() string {
	var b strings.Builder
	for _, l := range n.links {
		fmt.Fprintf(&b, "link %d to node %d: %d waiting, %d of %d answered\n", l.id, l.peer.ID, len(l.waiting), l.answered, l.asked)
	}
	for _, g := range n.groups {
		for i := range g.ties {
			if i != g.self {
				fmt.Fprintf(&b, "group %x: place %d %v\n", g.token[:2], i, &g.ties[i])
			}
		}
	}
	return b.String()
}

func (t *tie) String() string {
	text := "none"
	switch {
	case t.left:
		text = "left"
	case t.held:
		text = "held back"
	case t.attached:
		text = "attached"
	case t.question > 0:
		text = "confirmed"
	case t.theirs != 0:
		text = "answered"
	case t.link != nil:
		text = "offered"
	}
	if t.link != nil {
		text += fmt.Sprintf(" over link %d", t.link.id)
	}
	if t.doubted {
		text += ", doubted"
	}
	return text
}
