package squalltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

// urn is the state of an object whose commands draw numbers, emit events and start tasks.
type urn struct {
	Drawn []uint64
	Calls []string // that drew them
}

var (
	drawn  = replicated.NewCommand[string, int]("draw")
	noted  = replicated.NewCommand[string, int]("note")
	looked = replicated.NewQuery[struct{}, int]("look")
)

func (u *urn) draw(c *member.Context, call string) (int, error) {
	n := c.Rand().Uint64()
	u.Drawn, u.Calls = append(u.Drawn, n), append(u.Calls, call)
	c.Emit("drawn", []byte(call))
	return len(u.Drawn), c.Start("tell", []byte(call))
}

func (u *urn) note(_ *member.Context, call string) (int, error) {
	u.Calls = append(u.Calls, call)
	return len(u.Calls), nil
}

func (u *urn) look(*member.Context, struct{}) (int, error) { return len(u.Drawn), nil }

func newUrn() simulated {
	return member.New(squall.SubgroupConfig{Name: "urn"}, func() *urn { return &urn{} },
		member.Handle(drawn, (*urn).draw), member.Handle(noted, (*urn).note), member.Handle(looked, (*urn).look))
}

var errSameNumber = errors.New("two commands drew the same number")

func differ(state any) error {
	all := state.(*urn).Drawn
	for i, n := range all {
		for _, other := range all[:i] {
			if n == other {
				return errSameNumber
			}
		}
	}
	return nil
}

// drawsAndWatches has a client draw and look, with calls at the same time, and watch the events.
func drawsAndWatches(c *Client) {
	one := func() {
		for range 6 {
			if c.Rand().IntN(4) == 0 {
				_, _ = looked.Call(c.Context(), c.Object(), struct{}{})
			} else {
				_, _ = drawn.Call(c.Context(), c.Object(), fmt.Sprint(c.Number(), ":", c.Rand().Uint32()))
			}
		}
	}
	for range 2 {
		c.Go(one)
	}
	one()
}

// playBatches plays an object without shards whose members call commands, too, several at a time.
func playBatches(seed uint64, trace bool) (*run, error) {
	n := 0
	own := func(random *rand.Rand, _ int) (string, []byte) {
		n++
		args := fmt.Sprint("own ", n, string(make([]byte, random.IntN(200))))
		data, _ := replicated.CBOR[string]().Append(nil, &args)
		return "note", data
	}
	return play(Config{own: own}, seed, newUrn, drawsAndWatches, differ, trace)
}

// TestARunWaitsForWhatIsOnItsWay plays seeds in which a member or a client sent something when all
// clients were done.
func TestARunWaitsForWhatIsOnItsWay(t *testing.T) {
	for _, seed := range []uint64{951, 2316, 3176} {
		if r, err := playBatches(seed, false); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, r)
		}
	}
}

// TestCommandsOfOneMessage plays an object of which many commands share a message.
func TestCommandsOfOneMessage(t *testing.T) {
	first, count := uint64(1), *shardSeeds
	if *oneSeed > 0 {
		first, count = *oneSeed, 1
	}
	var all total
	shared := 0
	for seed := first; seed < first+uint64(count); seed++ {
		r, err := playBatches(seed, *traces)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, r)
		}
		all.add(r)
		shared += r.shared
	}
	if t.Logf("%s; %d commands came with an earlier one of their message", &all, shared); shared < 20*count {
		t.Errorf("only %d commands came with an earlier one of their message", shared)
	}
}
