//go:build linux

package fake

import "github.com/squall-go/squall/fabric/verbs/device"

// What happens to the pairs of whole processes, which are simulated: their ways are cut and heal,
// they end, and what they sent has arrived after some time.

// Cut has nothing that a pair sends get through while cut says so.
func (n *Network) Cut(of device.Pair, cut func() bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of.(*pair).cut = cut
}

// Posted is how many requests a pair was given.
func (n *Network) Posted(to device.Pair) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return to.(*pair).posted
}

// Arrive makes steps of a pair until nothing is left of its first requests, and shows what
// completed at both ends.
func (n *Network) Arrive(of device.Pair, requests int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := of.(*pair)
	o := p.other()
	gone := o == nil || o.state == failed
	if gone && n.opts.Patient || p.cut != nil && p.cut() {
		return
	}
	for p.state == connected && p.posted-len(p.requests) < requests {
		p.step()
	}
	p.queue.showAll()
	if !gone {
		o.queue.showAll()
	}
}

func (q *queue) showAll() {
	for len(q.hidden) > 0 {
		q.show()
	}
}

// Waits reports whether there is a completion to be polled.
func (n *Network) Waits(in device.Queue) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(in.(*queue).shown) > 0
}

// Break breaks a pair, of which the other end hears nothing.
func (n *Network) Break(p device.Pair) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.(*pair).fail(noAnswer)
	p.(*pair).queue.showAll()
}

// Vanish ends a pair with its process. Nothing completes.
func (n *Network) Vanish(p device.Pair) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := p.(*pair); p.state != closed {
		p.end()
	}
}
