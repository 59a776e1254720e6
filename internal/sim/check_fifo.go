package sim

// fifoChecker checks the other half of G1 and M5: a member takes each sender's committed messages in the order of their
// claims, each once.
type fifoChecker struct{ unconcerned }

func (fifoChecker) name() string { return "fifo" }

func (fifoChecker) taken(w *world, d *delivery) error {
	l := d.group.ledgers[d.sender]
	want, ok := d.group.expect(d.reader, d.sender)
	d.number = want
	if ok && l.claims[want].bytes == len(d.Data) && filled(d.Data, l.key, want) {
		w.sometimes(RingWrapped, want >= 2*d.group.sg.Window)
		d.reader.next[d.sender]++
		return nil
	}
	what := "a message"
	if len(d.Data) >= 8 {
		switch number, _ := numberOf(d.Data, l.key); {
		case number < want:
			what = "once more message"
		case number > want:
			what = "too early message"
		}
		number, _ := numberOf(d.Data, l.key)
		return violated("G1 (FIFO)", "rank %d: subgroup %q: seq %d: %s %d of sender %d, %d is next", d.node().rank, d.group.sg.Name, d.Seq, what, number, d.sender, want)
	}
	return violated("G1 (FIFO)", "rank %d: subgroup %q: seq %d: %s of %d bytes of sender %d, but %d is next", d.node().rank, d.group.sg.Name, d.Seq, what, len(d.Data), d.sender, want)
}
