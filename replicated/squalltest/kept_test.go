package squalltest

import (
	"errors"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

// filler is the state of an object whose replies are so large that an object keeps few of them for
// a session.
type filler struct{ Filled uint16 }

var fill = replicated.NewCommand[int, []byte]("fill")

func (f *filler) fill(_ *member.Context, n int) ([]byte, error) {
	f.Filled++
	reply := make([]byte, n)
	reply[0], reply[1] = byte(f.Filled), byte(f.Filled>>8)
	return reply, nil
}

func newFiller() simulated {
	return member.New(squall.SubgroupConfig{Name: "filler"}, func() *filler { return &filler{} }, member.Handle(fill, (*filler).fill))
}

// fills has a client call more commands at a time than the replies that are kept for its session.
func fills(c *Client) {
	one := func() {
		for range 3 {
			if _, err := fill.Call(c.Context(), c.Object(), 2+c.Rand().IntN(600<<10)); errors.Is(err, replicated.ErrReplyNotKept) {
				c.Fail(err)
			}
		}
	}
	for range 7 {
		c.Go(one)
	}
	one()
}

func playKept(seed uint64, trace bool) (*run, error) {
	return play(Config{SkipHistories: seed%4 > 0}, seed, newFiller, fills, right, trace)
}

// TestCommandsWaitForTheRepliesThatAreKept plays clients whose commands are refused until earlier
// replies are acknowledged. No call fails for that, each is executed once, and its reply is kept
// until the client has it.
func TestCommandsWaitForTheRepliesThatAreKept(t *testing.T) {
	first, count := uint64(1), max(testutil.Seeds(1, 8), *shardSeeds/10)
	if *oneSeed > 0 {
		first, count = *oneSeed, 1
	}
	var all total
	refused := 0
	for seed := first; seed < first+uint64(count); seed++ {
		r, err := playKept(seed, *traces)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, r)
		}
		all.add(r)
		refused += r.refused
	}
	if t.Logf("%s; %d were refused at first", &all, refused); refused < 10*count {
		t.Errorf("only %d commands were refused at first", refused)
	}
}
