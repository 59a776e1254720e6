package relay

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/rdmc/schedule"
)

// share puts messages where others see them: 0, none; 1, where not all do; 2, all do; 3, and some
// look at them where they lie.
func (w *world) share(how int) {
	w.offers = how > 0
	for _, x := range w.nodes {
		x.relay.piece = 1 + int64(w.rnd.IntN(9))
		x.blind = how == 1 && w.rnd.IntN(3) == 0
		x.relay.cfg.InPlace = how == 3 && w.rnd.IntN(2) == 0
	}
}

func (w *world) isViewed() bool {
	return slices.ContainsFunc(w.nodes, func(x *node) bool { return x.relay.cfg.InPlace })
}

// meet attaches a node, after what it, or this one, sees was found out.
func (x *node) meet(place int) {
	if x.place == 0 && !x.w.nodes[place].blind || place == 0 && !x.blind {
		x.relay.Sees(place)
	}
	x.relay.Attached(place, 0, false, &x.out)
}

// startFetching takes the next thing to fetch.
func (x *node) startFetching() {
	if x.dead || x.taken != nil {
		return
	}
	f, ok := x.relay.NextFetch()
	if !ok {
		return
	}
	x.taken = &f
	x.w.log("%d fetches %d bytes at %d of message %d", x.place, f.Length, f.Offset, f.Index)
	if x.w.blocks++; x.w.onBlock != nil {
		x.w.onBlock(x.w.blocks)
	}
}

// finishFetching looks at memory, or copies it.
func (x *node) finishFetching() {
	f := x.taken
	x.taken = nil
	number, err := strconv.ParseUint(f.Where, 10, 64)
	if err != nil {
		x.w.fatalf("%q is nowhere", f.Where)
	}
	x.shown[f.Index] = number
	if f.Length > 0 {
		from, into := x.w.nodes[0].sends[number], x.buffer[f.Index]
		switch {
		case into == nil:
			x.w.fatalf("R5: %d copies message %d into memory that it gave back", x.place, f.Index)
		case from != nil:
			copy(into[f.Offset:][:f.Length], from[f.Offset:][:f.Length])
		case x.w.nodes[0].failed == nil && !x.w.nodes[0].dead:
			x.w.fatalf("R6: %d copies message %d from memory that is used again", x.place, f.Index)
		}
	}
	x.relay.Fetched(f, nil, &x.out)
	x.apply()
}

// release lets go of what the application looked at.
func (x *node) release(index uint64) {
	x.w.log("%d releases %d", x.place, index)
	delete(x.views, index)
	if slices.Contains(x.completed, index) {
		x.relay.Released(index, &x.out)
		x.apply()
	}
}

// free takes the memory of a message back, and checks that no other node still uses it.
func (x *node) free(c *Call) {
	for _, o := range x.w.nodes {
		for _, number := range o.views {
			if number == c.Number && !c.Seen && !o.dead {
				x.w.fatalf("R6: the memory of %d is free, and %d looks at it", number, o.place)
			}
		}
	}
	if !c.Seen {
		x.sends[c.Number] = nil
	}
}

func TestR6MemoryIsFreeWhenNobodyLooksAtItAnyMore(t *testing.T) {
	seeds(t, testutil.Seeds(60, 300), func(seed uint64) {
		w := randomWorld(t, seed)
		w.share(3)
		w.nodes[len(w.nodes)-1].relay.cfg.InPlace = true
		for range 8 {
			w.start(1+w.rnd.IntN(60), 60)
		}
		w.run()
		for len(w.nodes[0].relay.root.viewed) > 0 {
			for _, x := range w.nodes {
				for index := range uint64(len(w.sent)) {
					if _, is := x.views[index]; is {
						x.release(index)
					}
				}
			}
			w.run()
		}
		w.toldOnce()
		w.closeAll()
		w.run()
		w.allDone()
	})
}

func TestOfferedMessagesComeAsTheyAreFilled(t *testing.T) {
	seeds(t, testutil.Seeds(40, 200), func(seed uint64) {
		w := newWorld(t, seed, Config{BlockBytes: 4}, 2+int(seed%5))
		w.share(2 + int(seed%2))
		w.fillSlowly(50)
		w.toldOnce()
	})
}

func TestAMessageThatNotAllSeeGoesInBlocks(t *testing.T) {
	w := newWorld(t, 1, Config{BlockBytes: 4, Algorithm: schedule.Chain}, 4)
	w.offers = true
	w.nodes[2].blind = true
	for range 10 {
		w.start(40, 40)
	}
	w.finish()
	if w.blocks != 10*10*3 {
		t.Fatalf("%d blocks were sent", w.blocks)
	}
}

func TestMemoryThatIsLookedAtWhenTheGroupEndsIsNeverUsedAgain(t *testing.T) {
	for _, fail := range []bool{false, true} {
		w := newWorld(t, 1, Config{BlockBytes: 4}, 3)
		w.nodes[1].relay.cfg.InPlace = true
		root, number := w.nodes[0], uint64(0)
		for _, x := range w.nodes {
			x.openGroup()
		}
		w.run()
		root.sends[0], w.sent = []byte("seen"), [][]byte{[]byte("seen")}
		if _, err := root.relay.Offer(4, 0, 4, "0", &root.out); err != nil {
			t.Fatal(err)
		}
		root.apply()
		for root.told["everywhere0"] == 0 && len(w.nodes[1].views) == 0 {
			w.step()
		}
		w.nodes[1].views = map[uint64]uint64{} // so that run does not release it
		w.run()
		if root.told["sent0"] > 0 || root.told["everywhere0"] != 1 {
			t.Fatalf("told %v of message %d", root.told, number)
		}
		if fail {
			w.kill(2)
		} else {
			w.closeAll()
		}
		w.run()
		if root.told["sent0"] != 1 || root.sends[0] == nil && !fail {
			t.Fatalf("told %v; its memory is %v", root.told, root.sends[0])
		}
	}
}

func TestWhatNobodyMaySayOfSharedMemoryIsAViolation(t *testing.T) {
	offer := Control{Kind: Offer, Size: 10, Text: "0", Code: offerFilled}
	for name, c := range map[string]struct {
		place int
		say   []Control
	}{
		"an offer of nothing":        {1, []Control{{Kind: Offer, Text: "0"}}},
		"an offer of too much":       {1, []Control{{Kind: Offer, Size: 1 << 63, Text: "0"}}},
		"an offer without a place":   {1, []Control{{Kind: Offer, Size: 1}}},
		"an offer of another kind":   {1, []Control{{Kind: Offer, Size: 1, Text: "0", Code: 2}}},
		"an offer too early":         {1, []Control{{Kind: Offer, Size: 1, Text: "0", Index: 1}}},
		"filled once more":           {1, []Control{offer, {Kind: Filled, Size: 10}}},
		"filled too much":            {1, []Control{{Kind: Offer, Size: 10, Text: "0"}, {Kind: Filled, Size: 11}}},
		"filled, and not offered":    {1, []Control{{Kind: Filled, Size: 10}}},
		"an offer to the root":       {0, []Control{offer}},
		"a block's ack in view":      {0, []Control{{Kind: Ack, Index: 1, Code: ackInView}}},
		"an ack of another kind":     {0, []Control{{Kind: Ack, Index: 1, Code: 2}}},
		"an ack in view of nothing":  {0, []Control{{Kind: Ack, Code: ackInView}}},
		"released, and not looked":   {0, []Control{{Kind: Released}}},
		"released, and not there":    {0, []Control{{Kind: Released, Index: 1 << 60}}},
		"a block of what was shared": {1, []Control{offer}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, Config{}, 2)
			for _, x := range w.nodes {
				x.openGroup()
			}
			w.run()
			if c.place == 0 {
				w.start(10, 10)
			}
			x := w.nodes[c.place]
			for i := range c.say {
				x.relay.Step(1-c.place, &c.say[i], &x.out)
			}
			if name == "a block of what was shared" {
				x.relay.Expect(0, &Header{Length: 10}, &x.out)
			}
			if f := x.relay.Failure(); f == nil || f.Code != Violation {
				t.Fatalf("the failure is %v", f)
			}
		})
	}
}

func TestARootThatIsGoneWhenItIsLookedAtIsTheReason(t *testing.T) {
	w := newWorld(t, 1, Config{}, 3)
	w.offers = true
	for range 20 {
		w.start(10, 10)
	}
	for w.nodes[2].taken == nil && w.step() {
	}
	w.kill(0)
	x := w.nodes[2]
	f := x.taken
	x.taken = nil
	x.relay.Fetched(f, ErrRootGone, &x.out)
	x.apply()
	w.run()
	if f := w.allFailed(); f == nil || *f != (Failure{10, Gone, "is gone"}) {
		t.Fatal(f)
	}
}

func TestAPlaceThatCannotBeSeenIsTheReasonEverywhere(t *testing.T) {
	w := newWorld(t, 1, Config{}, 3)
	w.offers = true
	for range 20 {
		w.start(10, 10)
	}
	for w.nodes[2].taken == nil && w.step() {
	}
	x := w.nodes[2]
	f := x.taken
	x.taken = nil
	x.relay.Fetched(f, errors.New("no such thing"), &x.out)
	x.apply()
	w.run()
	if f := w.allFailed(); f == nil || f.Code != NoRoom || f.Node != 12 {
		t.Fatal(f)
	}
}

func TestMessagesGoInBlocksWhileTooManyAreLookedAt(t *testing.T) {
	w := newWorld(t, 1, Config{BlockBytes: 4}, 2)
	x, root := w.nodes[1], w.nodes[0]
	x.relay.cfg.InPlace, w.offers = true, true
	for len(root.relay.root.viewed) < MaxViews {
		w.start(4, 4)
		for root.relay.base < uint64(len(w.sent)) {
			w.step()
		}
		clear(x.views) // no application releases them
	}
	w.run()
	before := w.blocks
	for range 10 {
		w.start(4, 4)
	}
	w.run()
	if len(root.relay.root.viewed) != MaxViews || w.blocks != before+10 || len(x.completed) != len(w.sent) {
		t.Fatalf("%d are looked at, %d blocks were sent", len(root.relay.root.viewed), w.blocks-before)
	}
}
