package relay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
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
		count = min(count, 50)
	}
	for seed := range uint64(count) {
		f(seed)
	}
}

func TestR1EveryMemberGetsAllMessagesInOrder(t *testing.T) {
	seeds(t, testutil.Seeds(80, 400), func(seed uint64) {
		w := randomWorld(t, seed)
		w.finish()
	})
}

func TestACloseThatComesEarlyWaitsForAll(t *testing.T) {
	seeds(t, testutil.Seeds(100, 500), func(seed uint64) {
		w := randomWorld(t, seed)
		for range w.rnd.IntN(300) {
			w.step()
		}
		w.closeAll()
		w.run()
		w.closeAll() // of the members that were not open
		w.run()
		w.allDone()
	})
}

func TestBlocksLeaveWhenTheyAreFilled(t *testing.T) {
	seeds(t, testutil.Seeds(60, 300), func(seed uint64) {
		w := newWorld(t, seed, Config{BlockBytes: 4}, 2+int(seed%5))
		w.fillSlowly(50)
	})
}

// fillSlowly makes the root send a message that it fills bit by bit. No node may have the message
// before it is filled, and all nodes have it in the end.
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
	w.finish()
}

func TestAnAbortedMessageIsPassedOverByEverybody(t *testing.T) {
	seeds(t, testutil.Seeds(120, 600), func(seed uint64) {
		w := randomWorld(t, seed)
		at := 1 + w.rnd.IntN(40)
		w.onBlock = func(count int) {
			if count%at == 0 {
				w.abort(w.started[w.rnd.IntN(len(w.sent))])
			}
		}
		w.finish()
	})
}

func TestABurstOfAbortsIsNoViolation(t *testing.T) {
	seeds(t, testutil.Seeds(10, 50), func(seed uint64) {
		w := newWorld(t, seed, Config{BlockBytes: 1, Algorithm: schedule.Chain}, 5)
		for range 400 {
			number := w.start(20, 20)
			for range w.rnd.IntN(40) {
				w.step()
			}
			w.abort(number)
		}
		w.finish()
	})
}

// A member dies at any block: all survivors learn the same reason.
func TestR4AllWhoLiveLearnOneReason(t *testing.T) {
	seeds(t, testutil.Seeds(120, 600), func(seed uint64) {
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

// The same with several that die: the reasons may differ, but every survivor learns one.
func TestNobodyIsLeftWithoutAReason(t *testing.T) {
	seeds(t, testutil.Seeds(100, 500), func(seed uint64) {
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

// A death around the end: any member may succeed, but a root that succeeds has all members on its
// side.
func TestARootThatSucceedsKnowsThatAllDid(t *testing.T) {
	seeds(t, testutil.Seeds(120, 600), func(seed uint64) {
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
	seeds(t, testutil.Seeds(100, 500), func(seed uint64) {
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
	seeds(t, testutil.Seeds(100, 500), func(seed uint64) {
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
			seeds(t, testutil.Seeds(20, 100), func(seed uint64) {
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
	seeds(t, testutil.Seeds(60, 300), func(seed uint64) {
		w := randomWorld(t, seed)
		x := w.nodes[1+w.rnd.IntN(len(w.nodes)-1)]
		at := w.rnd.Uint64N(uint64(len(w.sent)))
		x.relay.cfg.InPlace = false // a member that only looks is not asked for room
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
	r.Attached(0, 0, false, &out)
	r.Step(0, &Control{Kind: Closed}, &out)
	out.Reset()
	if r.Attached(2, 0, false, &out); !r.Finished() || len(out.Frames) != 1 || out.Frames[0].To != 2 || out.Frames[0].Kind != Closed {
		t.Fatalf("finished: %v; node 3 is told %+v", r.Finished(), out.Frames)
	}
}

// openRoot is a root whose group all members have opened.
func openRoot(members int) (*Relay, *Effects) {
	c, out := Config{MaxMessage: 100}, &Effects{}
	for id := range members {
		c.Nodes = append(c.Nodes, order.NodeID(id+1))
	}
	r := New(c)
	for place := 1; place < members; place++ {
		r.Attached(place, 0, false, out)
	}
	return r, out
}

// An ack of what was never announced is a violation, however small the lie: the root would take the
// next message for one that is everywhere.
func TestMoreThanWasAnnouncedIsNotAcked(t *testing.T) {
	for name, c := range map[string]struct {
		acks []uint64
		good bool
	}{
		"all":       {[]uint64{1, 2}, true},
		"one more":  {[]uint64{3}, false},
		"many more": {[]uint64{2, 1 << 60}, false},
		"one less":  {[]uint64{2, 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, out := openRoot(3)
			for range 2 {
				if _, err := r.Start(0, 0, 0, out); err != nil {
					t.Fatal(err)
				}
			}
			for _, count := range c.acks {
				r.Step(1, &Control{Kind: Ack, Index: count}, out)
			}
			if f := r.Failure(); (f == nil) != c.good || f != nil && (f.Code != Violation || f.Node != 2) {
				t.Errorf("the failure is %v", f)
			}
		})
	}
}

// A member that has answered the end of a group owes nothing any more: that it goes before the
// others have answered is no failure.
func TestAMemberThatAnsweredTheEndMayGo(t *testing.T) {
	for name, go1 := range map[string]func(*Relay, *Effects){
		"it left":      func(r *Relay, out *Effects) { r.Left(1, out) },
		"it is gone":   func(r *Relay, out *Effects) { r.Gone(1, out) },
		"it is silent": func(r *Relay, out *Effects) { r.Silent(1, out) },
	} {
		t.Run(name, func(t *testing.T) {
			r, out := openRoot(3)
			r.Close(out)
			r.Step(1, &Control{Kind: Closed}, out)
			if go1(r, out); r.Failure() != nil {
				t.Fatalf("the failure is %v", r.Failure())
			}
			if r.Finished() {
				t.Fatal("finished, and one has not answered")
			}
			r.Step(2, &Control{Kind: Closed}, out)
			if !r.Finished() || r.Failure() != nil {
				t.Errorf("finished: %v, failure: %v", r.Finished(), r.Failure())
			}
		})
	}
	r, out := openRoot(3)
	r.Close(out)
	if r.Left(1, out); r.Failure() == nil || r.Failure().Node != 2 {
		t.Errorf("a member left without an answer: %v", r.Failure())
	}
}
