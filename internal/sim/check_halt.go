package sim

import (
	"github.com/squall-go/squall/internal/member"
)

// haltChecker checks B3, and that a fixed membership ends as a whole: nothing is delivered after halting, everybody halts within
// bounded time after a fault, and nobody without one (B2).
type haltChecker struct{ unconcerned }

func (haltChecker) name() string { return "halt" }

func (haltChecker) offered(w *world, d *delivery) error {
	if err := d.node().member.Err(); err != nil {
		return violated("B3", "rank %d: subgroup %q: seq %d is delivered after halting: %v", d.node().rank, d.group.sg.Name, d.Seq, err)
	}
	return nil
}

func (haltChecker) end(w *world) error {
	faulty := w.plan.Fault.Kind != NoFault
	for _, n := range w.nodes {
		err := n.member.Err()
		if !faulty && err != nil {
			return violated("B2", "rank %d halted, and nobody failed: %v", n.rank, err)
		}
		if faulty && !n.gone && err == nil {
			return violated("B2", "rank %d goes on at %v, and the fault came at %v", n.rank, w.now, w.struck)
		}
		w.sometimes(SpokeAgain, faulty && n.hangs > 0 && err != nil)
	}
	w.sometimes(HaltedUndelivered, faulty && w.undone > 0)
	return nil
}

// checkDown checks a member's report that a peer is down: without a fault there is none.
func checkDown(w *world, n *node, p member.PeerDown) error {
	if w.struck == never {
		return violated("B2", "rank %d: %v, and nothing had happened to anybody", n.rank, p)
	}
	return nil
}

// checkRefused checks that a claim is refused for no other reason than that the member halted.
func checkRefused(w *world, n *node, err error) error {
	if reason := n.member.Err(); reason == nil || err != reason {
		return violated("B3", "rank %d refuses a claim: %v; it halted because of %v", n.rank, err, reason)
	}
	w.probes[SendAfterHalt]++
	return nil
}

// checkAccepted checks that a member that halted accepts nothing.
func checkAccepted(w *world, n *node) error {
	if err := n.member.Err(); err != nil {
		return violated("B3", "rank %d accepts a claim after halting: %v", n.rank, err)
	}
	return nil
}
