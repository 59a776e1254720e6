package sim

// contentChecker checks that nothing is made up and nothing altered: what is offered is, byte for
// byte, a message that its sender committed.
type contentChecker struct{ unconcerned }

func (contentChecker) name() string { return "content" }

func (contentChecker) offered(w *world, d *delivery) error {
	l := d.ledger()
	if l.spoiled() {
		return nil
	}
	if len(d.Data) < 8 {
		switch {
		case d.number == unknown && !l.looksLike(d.Data):
			return violated("content", "%v: %d bytes that its sender never sent", d, len(d.Data))
		case d.number != unknown && d.now && !l.content(d.Data, d.number):
			return violated("content", "%v: %d bytes that are not message %d of its sender, which is next", d, len(d.Data), d.number)
		}
		return nil
	}
	number, ok := numberOf(d.Data, l.key)
	if !ok || number >= len(l.claims) || !l.claims[number].is(d.Data, l.key, number) {
		return violated("content", "%v: %d bytes that its sender never sent: % x…", d, len(d.Data), d.Data[:8])
	}
	if l.claims[number].state != committed {
		return violated("content", "%v: claim %d was not committed", d, number)
	}
	return nil
}
