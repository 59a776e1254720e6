package relay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc/schedule"
)

var algorithms = []schedule.Algorithm{schedule.Auto, schedule.Sequential, schedule.Chain, schedule.Tree, schedule.Pipeline}

// randomWorld makes a world of which all but the size of blocks, and of messages, is the seed's.
func randomWorld(t *testing.T, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	n := 2 + r.IntN(8)
	c := Config{Algorithm: algorithms[r.IntN(len(algorithms))], BlockBytes: 1 + r.IntN(9)}
	if r.IntN(6) == 0 {
		c.Algorithm = schedule.Hybrid
		for i := range n {
			c.Racks = append(c.Racks, fmt.Sprint("rack ", i%3))
		}
	}
	w := newWorld(t, seed, c, n)
	w.share(r.IntN(4))
	for range 1 + r.IntN(24) {
		size := r.IntN(60)
		w.start(size, size)
	}
	return w
}

func seeds(t *testing.T, count int, f func(seed uint64)) {
	t.Helper()
	if testing.Short() {
		count /= 10
	}
	for seed := range uint64(count) {
		f(seed)
	}
}

func TestR1EveryMemberGetsAllMessagesInOrder(t *testing.T) {
	seeds(t, 400, func(seed uint64) {
		w := randomWorld(t, seed)
		w.run()
		w.closeAll()
		w.run()
		w.allDone()
	})
}

func TestACloseThatComesEarlyWaitsForAll(t *testing.T) {
	seeds(t, 500, func(seed uint64) {
		w := randomWorld(t, seed)
		for range w.rnd.IntN(300) {
			w.step()
		}
		w.closeAll()
		w.run()
		w.closeAll() // of those that were not open
		w.run()
		w.allDone()
	})
}

func TestBlocksLeaveWhenTheyAreFilled(t *testing.T) {
	seeds(t, 300, func(seed uint64) {
		w := newWorld(t, seed, Config{BlockBytes: 4}, 2+int(seed%5))
		w.fillSlowly(50)
	})
}

// fillSlowly has the root send a message that it fills bit by bit. Nobody may have it before it is filled, and all have it in the end.
func (w *world) fillSlowly(size int) {
	number := w.start(size, 0)
	for n := 0; n < size; {
		w.run()
		if len(w.nodes[1].completed) > 0 || w.nodes[0].told["sent0"] > 0 {
			w.fatalf("it was complete with %d bytes", n)
		}
		n = min(n+w.rnd.IntN(9), size)
		w.nodes[0].relay.Fill(number, int64(n), &w.nodes[0].out)
		w.nodes[0].apply()
	}
	w.run()
	w.closeAll()
	w.run()
	w.allDone()
}

func TestAnAbortedMessageIsPassedOverByEverybody(t *testing.T) {
	seeds(t, 600, func(seed uint64) {
		w := randomWorld(t, seed)
		at := 1 + w.rnd.IntN(40)
		w.onBlock = func(count int) {
			if count%at == 0 {
				w.abort(uint64(w.rnd.IntN(len(w.sent))))
			}
		}
		w.run()
		w.closeAll()
		w.run()
		w.allDone()
	})
}

func TestABurstOfAbortsIsNoViolation(t *testing.T) {
	seeds(t, 50, func(seed uint64) {
		w := newWorld(t, seed, Config{BlockBytes: 1, Algorithm: schedule.Chain}, 5)
		for range 400 {
			number := w.start(20, 20)
			for range w.rnd.IntN(40) {
				w.step()
			}
			w.abort(number)
		}
		w.run()
		w.closeAll()
		w.run()
		w.allDone()
	})
}

// A member that dies at any block: all who live learn the same.
func TestR4AllWhoLiveLearnOneReason(t *testing.T) {
	seeds(t, 600, func(seed uint64) {
		w := randomWorld(t, seed)
		victim := w.rnd.IntN(len(w.nodes))
		at := 1 + w.rnd.IntN(60)
		w.onBlock = func(count int) {
			if count >= at && w.met() && !w.nodes[victim].dead {
				w.kill(victim)
			}
		}
		w.run()
		if w.nodes[victim].dead {
			if f := w.allFailed(); f != nil && (f.Code != Gone || f.Node != order.NodeID(victim+10)) {
				w.fatalf("the reason is %v", f)
			}
		}
	})
}

// The same with several that die: the reasons may differ, but nobody is left without.
func TestNobodyIsLeftWithoutAReason(t *testing.T) {
	seeds(t, 500, func(seed uint64) {
		w := randomWorld(t, seed)
		first := 1 + w.rnd.IntN(30)
		w.onBlock = func(count int) {
			if count >= first && w.met() && w.rnd.IntN(5) == 0 {
				w.kill(w.rnd.IntN(len(w.nodes)))
			}
		}
		w.run()
		if !slices.ContainsFunc(w.nodes, func(x *node) bool { return x.dead }) {
			return
		}
		for _, x := range w.nodes {
			if !x.dead && (x.failed == nil || !x.relay.Over()) {
				w.fatalf("%d was not told", x.place)
			}
		}
		w.toldOnce()
	})
}

// A death around the end: whoever succeeds may, but a root that succeeds has all members on its side.
func TestARootThatSucceedsKnowsThatAllDid(t *testing.T) {
	seeds(t, 600, func(seed uint64) {
		w := randomWorld(t, seed)
		w.run()
		w.closeAll()
		for range w.rnd.IntN(len(w.nodes) * 8) {
			w.step()
		}
		victim := w.rnd.IntN(len(w.nodes))
		finished := w.nodes[victim].relay.Finished()
		w.kill(victim)
		w.run()
		for _, x := range w.nodes {
			if root := w.nodes[0]; root.relay.Finished() && !root.dead && !x.relay.Finished() && (!x.dead || finished) {
				w.fatalf("the root succeeded, %d did not: %v", x.place, x.relay.Failure())
			}
			if !x.dead && !x.relay.Over() {
				w.fatalf("%d waits for ever", x.place)
			}
		}
	})
}

func TestADiscardIsTheReasonEverywhere(t *testing.T) {
	seeds(t, 500, func(seed uint64) {
		w := randomWorld(t, seed)
		x := w.nodes[w.rnd.IntN(len(w.nodes))]
		at := 1 + w.rnd.IntN(20)
		w.onBlock = func(count int) {
			if count == at {
				x.relay.Discard(&x.out)
				x.apply()
			}
		}
		w.run()
		if x.relay.Failure() != nil {
			if f := w.allFailed(); f.Code != Discarded || !errors.Is(f, ErrDiscarded) || f.Node != order.NodeID(x.place+10) {
				w.fatalf("the reason is %v", f)
			}
		}
	})
}

func TestABlockWithAWrongChecksumIsTheReasonEverywhere(t *testing.T) {
	seeds(t, 500, func(seed uint64) {
		w := randomWorld(t, seed)
		at, count := 1+w.rnd.IntN(20), 0
		w.spoil = func(p *packet) []byte {
			if count++; count == at {
				p.data[0] ^= 4
			}
			return p.data
		}
		w.run()
		if count >= at {
			if f := w.allFailed(); f.Code != Corrupt {
				w.fatalf("the reason is %v", f)
			}
		}
	})
}

func TestR3ABlockThatIsNotTheNextOneIsTheReasonEverywhere(t *testing.T) {
	for name, change := range map[string]func(w *world, h *Header){
		"another block":   func(w *world, h *Header) { h.Block++ },
		"an early one":    func(w *world, h *Header) { h.Block -= min(h.Block, 1) },
		"a huge one":      func(w *world, h *Header) { h.Block = 1 << 31 },
		"another message": func(w *world, h *Header) { h.Message += 1 + w.rnd.Uint64N(100) },
		"a huge message":  func(w *world, h *Header) { h.Message = 1<<64 - 1 },
		"shorter":         func(w *world, h *Header) { h.Length-- },
		"longer":          func(w *world, h *Header) { h.Length++ },
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, 100, func(seed uint64) {
				w := newWorld(t, seed, Config{BlockBytes: 2, Algorithm: algorithms[seed%5]}, 2+int(seed%6))
				w.start(101, 101)
				w.start(101, 101)
				at, count := 2+w.rnd.IntN(20), 0
				w.spoil = func(p *packet) []byte {
					if count++; count == at {
						h, _ := ParseHeader(&p.header)
						was := h
						if change(w, &h); h == was || h.Length == 0 {
							count--
						}
						h.Put(&p.header)
					}
					return p.data
				}
				w.run()
				if f := w.allFailed(); f == nil || f.Code != Violation {
					w.fatalf("the reason is %v", f)
				}
			})
		})
	}
}

func TestAMemberWithoutRoomIsTheReasonEverywhere(t *testing.T) {
	seeds(t, 300, func(seed uint64) {
		w := randomWorld(t, seed)
		x := w.nodes[1+w.rnd.IntN(len(w.nodes)-1)]
		at := w.rnd.Uint64N(uint64(len(w.sent)))
		x.relay.cfg.InPlace = false // who only looks is not asked for room
		x.refuse = func(index uint64) error {
			if index == at {
				return errors.New("the disk is full")
			}
			return nil
		}
		w.run()
		if f := w.allFailed(); f.Code != NoRoom || f.Node != order.NodeID(x.place+10) {
			w.fatalf("the reason is %v", f)
		}
	})
}

func TestAMessageThatAReceiverFindsTooLargeIsTheReasonEverywhere(t *testing.T) {
	w := newWorld(t, 1, Config{BlockBytes: 4}, 4)
	w.nodes[2].relay.cfg.MaxMessage = 99
	w.start(100, 100)
	w.run()
	if f := w.allFailed(); f.Code != NoRoom || f.Node != 12 {
		t.Fatal(f)
	}
}

func TestWhoAttachesLateHearsHowTheGroupEnded(t *testing.T) {
	r := New(Config{Nodes: []order.NodeID{1, 2, 3}, Self: 1})
	var out Effects
	r.Attached(0, &out)
	r.Step(0, &Control{Kind: Closed}, &out)
	out.Reset()
	if r.Attached(2, &out); !r.Finished() || len(out.Frames) != 1 || out.Frames[0].To != 2 || out.Frames[0].Kind != Closed {
		t.Fatalf("finished: %v; node 3 is told %+v", r.Finished(), out.Frames)
	}
}
