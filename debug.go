package squall

import (
	"bytes"
	"io"
)

// Debug inspects a running group, for people and tests.
type Debug struct{ group *Group }

// Debug returns an inspector of the group.
func (g *Group) Debug() Debug { return Debug{g} }

// Link returns the name of the fabric between this process and a member: "shm", "tcp", that of a
// transport ("verbs") or "self", "pending" before they are connected, and "" for a node that is no
// member.
func (d Debug) Link(id NodeID) (name string, err error) {
	g := d.group
	if err := g.upcalls.waits(); err != nil {
		return "", err
	}
	if !g.ask(func() {
		if r, ok := g.member.View().RankOf(id); ok {
			name = g.member.Table().LinkName(r)
		}
	}) {
		return "", ErrClosed
	}
	return name, nil
}

// Dump writes the shared state table of the view in force as this process sees it, a line for each
// member.
func (d Debug) Dump(w io.Writer) error {
	if err := d.group.upcalls.waits(); err != nil {
		return err
	}
	var text bytes.Buffer // written outside the loop, which must not wait for w
	var err error
	if !d.group.ask(func() { err = d.group.member.Dump(&text) }) {
		return ErrClosed
	}
	if err == nil {
		_, err = w.Write(text.Bytes())
	}
	return err
}
