package sim

// fifoChecker checks the other half of G1 and M5: a member takes each sender's committed messages
// in the order of their claims, each once, over all views; and without a gap as long as both are in
// a subgroup together.
type fifoChecker struct{ unconcerned }

func (fifoChecker) name() string { return "fifo" }

func (fifoChecker) taken(w *world, d *delivery) error {
	l, f := d.ledger(), d.flow()
	w.sometimes(RingWrapped, d.number >= 2*d.group.sg.Window)
	want := l.from(f.next)
	if l.proc == d.proc() {
		want = l.past(f.next)
	}
	if d.number == unknown || d.number == want || f.loose && d.number > want {
		return nil
	}
	what := "too early"
	if d.number < want {
		what = "once more"
	}
	return violated("G1 (FIFO)", "%v: message %d %s, %d is next", d, d.number, what, want)
}
