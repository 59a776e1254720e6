package testlab

import (
	"slices"
	"testing"

	"github.com/squall-go/squall"
)

// timed delivers messages in runs to the application of a timed load of node 1.
func timed(total uint64, runs ...[]squall.Message) (*timing, []News) {
	var s story
	t := newTiming(1, total, s.tell)
	for _, run := range runs {
		for _, m := range run {
			if m.Sender == t.id {
				t.sending(t.next)
			}
		}
		t.deliver(run)
	}
	return t, s.news
}

func TestTheDigestIsOfTheSequenceAndNotOfItsRuns(t *testing.T) {
	msg := func(sender squall.NodeID, data string) squall.Message {
		return squall.Message{Sender: sender, Data: []byte(data)}
	}
	digest := func(runs ...[]squall.Message) string {
		var a Answer
		of, _ := timed(0, runs...)
		of.describe(&a)
		return a.States[0].Digest
	}
	a, b, c := msg(1, "a"), msg(2, "b"), msg(3, "")
	want := digest([]squall.Message{a, b, c})
	if got := digest([]squall.Message{a}, []squall.Message{b, c}); got != want {
		t.Errorf("in two runs: %s, not %s", got, want)
	}
	for what, other := range map[string][]squall.Message{
		"another order":    {b, a, c},
		"another sender":   {msg(2, "a"), b, c},
		"another message":  {msg(1, "A"), b, c},
		"other borders":    {msg(1, ""), msg(2, "ab"), c},
		"one message less": {a, b},
		"one message more": {a, b, c, c},
	} {
		if got := digest(other); got == want {
			t.Errorf("%s: the same digest", what)
		}
	}
}

func TestOwnMessagesAreTimedAndTheTotalIsTold(t *testing.T) {
	own, other := squall.Message{Sender: 1, Data: []byte("x")}, squall.Message{Sender: 2, Data: []byte("yz")}
	of, news := timed(3, []squall.Message{other, own}, []squall.Message{other}, []squall.Message{own})
	var a Answer
	of.describe(&a)
	if s := a.States[0]; s.Messages != 4 || s.Bytes != 6 || a.Timing.Latency.Messages != 2 || a.Timing.Took <= 0 {
		t.Errorf("%+v, %+v", s, a.Timing)
	}
	if len(news) != 1 || news[0].Mark.Messages != 3 {
		t.Errorf("told: %+v", news)
	}
	of.begin()
	of.describe(&a)
	if a.Timing.Latency.Messages != 0 || a.States[1].Messages != 4 {
		t.Errorf("anew: %+v, %+v", a.Timing, a.States[1])
	}
}

func TestATimedLoadSendsItsLinesAsTheyAre(t *testing.T) {
	for bytes, want := range map[int][]string{0: {"one", "two", "one"}, 4: {"one ", "two ", "one "}, 2: {"on", "tw", "on"}} {
		l := Load{Lines: words.Lines, Bytes: bytes, Timed: true}
		var got []string
		for n := range uint64(3) {
			got = append(got, string(l.Message(7, n)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d bytes: %q", bytes, got)
		}
	}
	if l := (Load{Timed: true}); len(l.Message(7, 0)) != 0 {
		t.Error("there are no lines, and a message is not empty")
	}
}
