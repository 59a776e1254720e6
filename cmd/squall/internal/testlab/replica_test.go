package testlab

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall"
)

// story collects what a replica tells.
type story struct{ news []News }

func (s *story) tell(n News) { s.news = append(s.news, n) }

func (s *story) fault() string {
	for _, n := range s.news {
		if n.Kind == NewsFault {
			return n.Text
		}
	}
	return ""
}

// words is a load that sends lines.
var words = Load{Name: "words", Lines: [][]byte{[]byte("one"), []byte("two")}}

// line is message number n of a process, whose node has the same number.
func line(view squall.ViewID, seq squall.Seq, process int, n uint64) squall.Message {
	return squall.Message{Sender: squall.NodeID(process), View: view, Seq: seq, Data: words.Message(process, n)}
}

func TestTheStateDoesNotDependOnBatchesAndIsHandedOver(t *testing.T) {
	var s story
	one, two, late := newReplica(&words, s.tell), newReplica(&words, s.tell), newReplica(&words, s.tell)
	run := []squall.Message{line(1, 0, 1, 0), line(1, 1, 2, 0), line(1, 3, 1, 1), line(1, 4, 2, 1)}
	one.deliver(run)
	for i := range run {
		if i == 2 {
			var state bytes.Buffer
			if err := two.snapshot()(&state); err != nil {
				t.Fatal(err)
			}
			if err := late.restore(&state); err != nil || late.restored() != 2 {
				t.Fatal(err, late.restored())
			}
		}
		if i >= 2 {
			late.deliver(run[i : i+1])
		}
		two.deliver(run[i : i+1])
	}
	var want Answer
	one.describe(&want)
	for _, r := range []*replica{two, late} {
		var got Answer
		if r.describe(&got); got.States[0] != want.States[0] || got.States[0].Messages != 4 || !slices.Equal(got.Lives[0], want.Lives[0]) {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
	if l := want.Lives[0]; l.Of(0) != 0 || l.Of(1) != 2 || l.Of(2) != 2 || l.Of(3) != 0 {
		t.Errorf("delivered %v", l)
	}
	if f := s.fault(); f != "" {
		t.Error(f)
	}
}

func TestWhatIsMissingTwiceOrOutOfOrderIsFoundAtOnce(t *testing.T) {
	changed := line(1, 0, 3, 0)
	changed.Data[HeaderBytes]++
	for want, run := range map[string][]squall.Message{
		"message 1 of process 3 (node 3) was delivered in view 1 where message 0 was due": {line(1, 0, 3, 1)},
		"message 0 of process 3 (node 3) was delivered in view 1 where message 1 was due": {line(1, 0, 3, 0), line(1, 1, 3, 0)},
		"version 1:9 was delivered after 2:0":                                             {line(2, 0, 3, 0), line(1, 9, 3, 1)},
		"version 1:1 was delivered after 1:1":                                             {line(1, 1, 3, 0), line(1, 1, 3, 1)},
		"view 1, seq 0: a message of 2 bytes from node 9":                                 {{Sender: 9, View: 1, Data: []byte("no")}},
		"view 1, seq 0: a message of node 70000 says that it is from process 70000":       {line(1, 0, 70000, 0)},
		"view 1, seq 0: message 0 of process 3 (node 3) is not the line that was sent":    {changed},
		"view 1, seq 0: message 0 of process 3 (node 3) differs 4 bytes before its end":   {{Sender: 3, View: 1, Data: append(words.Message(3, 0)[:12], "xxxxone"...)}},
	} {
		var s story
		newReplica(&words, s.tell).deliver(run)
		if got := s.fault(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestEveryViewThatIsOverGetsAMark(t *testing.T) {
	var s story
	r := newReplica(&words, s.tell)
	r.deliver([]squall.Message{line(2, 0, 1, 0), line(2, 1, 1, 1), line(5, 0, 1, 2)})
	var over []squall.ViewID
	for _, n := range s.news {
		if m := n.Mark; m != nil && m.At == AtViewEnd && m.Messages == 2 {
			over = append(over, m.View)
		}
	}
	if !slices.Equal(over, []squall.ViewID{2, 3, 4}) {
		t.Fatal(over)
	}
}

func TestAMessageIsTheLineThatItsNumberSays(t *testing.T) {
	for _, c := range []struct {
		bytes int
		want  string
	}{{0, "two"}, {HeaderBytes + 5, "two  "}, {HeaderBytes + 2, "tw"}} {
		l := words
		l.Bytes = c.bytes
		data := l.Message(7, 3)
		if got := string(data[HeaderBytes:]); got != c.want {
			t.Errorf("size %d: %q, not %q", c.bytes, got, c.want)
		}
		if d, err := l.content().read(squall.Message{Data: data}); err != nil || d != (told{7, 3}) {
			t.Errorf("size %d: %+v, %v", c.bytes, d, err)
		}
		for _, other := range [][]byte{data[:len(data)-1], append(data[:len(data):len(data)], ' ')} {
			if _, err := l.content().read(squall.Message{Data: other}); err == nil {
				t.Errorf("size %d: %q is taken for a line", c.bytes, other)
			}
		}
	}
}
