package sim

// contentChecker checks that nothing is made up and nothing altered: what is offered is, byte for byte, a message that its
// sender committed. A content of less than 8 bytes does not tell its number; fifoChecker compares it with the one expected.
type contentChecker struct{ unconcerned }

func (contentChecker) name() string { return "content" }

func (contentChecker) offered(w *world, d *delivery) error {
	if len(d.Data) < 8 {
		return nil
	}
	l := d.group.ledgers[d.sender]
	number, ok := numberOf(d.Data, l.key)
	if !ok || number >= len(l.claims) || l.claims[number].bytes != len(d.Data) || !filled(d.Data, l.key, number) {
		return violated("content", "rank %d: subgroup %q: seq %d: %d bytes that sender %d never sent: % x…", d.node().rank, d.group.sg.Name, d.Seq, len(d.Data), d.sender, d.Data[:8])
	}
	if l.claims[number].state != committed {
		return violated("content", "rank %d: subgroup %q: seq %d: claim %d of sender %d was not committed", d.node().rank, d.group.sg.Name, d.Seq, number, d.sender)
	}
	return nil
}
