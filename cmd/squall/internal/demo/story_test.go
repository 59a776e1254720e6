package demo

import (
	"testing"
	"time"

	"github.com/squall-go/squall"
)

func TestHappeningsAreToldInALine(t *testing.T) {
	const ms = time.Millisecond
	for want, h := range map[string]Happening{
		"  1.250s  node 3 killed":                                                                {Seconds: 1.25, What: whatKilled, Node: 3, Process: 3},
		"  0.000s  view 1: nodes 1 2 3":                                                          {What: whatView, View: 1, Nodes: []squall.NodeID{1, 2, 3}},
		"  0.000s  node 2 hangs, for 1.5s":                                                       {What: whatHung, Node: 2, HangsNs: int64(1500 * ms)},
		"  0.000s  node 2 goes on":                                                               {What: whatContinued, Node: 2},
		"  0.000s  node 2 is out: evicted: node 1 suspects it":                                   {What: whatEvicted, Node: 2, Detail: "evicted: node 1 suspects it; it did nothing"},
		"  0.000s  node 4 leaves":                                                                {What: whatLeaves, Node: 4},
		"  0.000s  node 4 has left":                                                              {What: whatLeft, Node: 4},
		"  0.000s  node 3 starts again (process 5)":                                              {What: whatStarted, Node: 3, Process: 5, Again: true},
		"  0.000s  node 6 starts (process 6)":                                                    {What: whatStarted, Node: 6, Process: 6},
		"  0.000s  node 3 has the state of 1,234 messages, from node 1, after 5.0 ms":            {What: whatRestored, Node: 3, Source: 1, Count: 1234, TookNs: int64(5 * ms)},
		"  1.000s  all killed; 12,345 messages were acknowledged":                                {Seconds: 1, What: whatAllKilled, Count: 12345},
		"  0.000s  the logs, record by record: 12,400 messages are on every disk, the same ones": {What: whatDisks, Count: 12400},
		"  0.000s  the logs, record by record: 12,400 messages are on every disk, the same ones; one has 5 more, which were not acknowledged": {What: whatDisks, Count: 12400, More: 5},
		"  0.000s  node 2 waits for node 1, node 3: 1 of 3 members of view 1 are here":                                                        {What: whatWaits, Node: 2, Detail: "node 1, node 3: 1 of 3 members of view 1 are here"},
		"  0.000s  node 3 has the state of 12,400 messages, from its log, after 35 ms":                                                        {What: whatRecovered, Node: 3, Count: 12400, TookNs: int64(35 * ms)},
		"  0.000s  all stop sending": {What: whatQuiet},
	} {
		if got := h.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
