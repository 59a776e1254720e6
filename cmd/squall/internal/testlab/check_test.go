package testlab

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall"
)

// message is one delivery.
type message struct {
	view   squall.ViewID
	seq    squall.Seq
	life   int
	number uint64
}

// script is a small run: processes 1 to 3 are the members of view 1; 3 is killed; 1 and 2 go on in
// view 2, and leave.
var script = []message{
	{1, 0, 1, 0}, {1, 1, 2, 0}, {1, 2, 3, 0}, {1, 3, 1, 1}, {1, 4, 2, 1},
	{2, 0, 1, 2}, {2, 1, 2, 2}, {2, 2, 1, 3},
}

// write makes a log of it, as a process does.
func write(t *testing.T, life, length int, views []Installed, messages []message, end *End) *Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	w, err := newLogWriter(path, length, 0, Header{Life: life, ID: squall.NodeID(life), Subgroups: []LoggedSubgroup{{Name: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		w.view(&v)
		for _, m := range messages {
			if m.view == v.ID {
				data := make([]byte, 21)
				pattern.fill(data, m.life, m.number)
				w.deliver(0, []squall.Message{{Data: data, Sender: squall.NodeID(m.life), View: m.view, Seq: m.seq}})
			}
		}
	}
	if end != nil {
		if err := w.end(*end); err != nil {
			t.Fatal(err)
		}
	} else if err := w.file.Close(); err != nil { // what a killed process had not written is lost
		t.Fatal(err)
	}
	l, err := ReadLog(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func members(id squall.ViewID, nodes ...squall.NodeID) Installed {
	v := Installed{ID: id}
	for _, n := range nodes {
		v.Members = append(v.Members, Incarnation{n, uint64(n) * 100})
	}
	return v
}

func TestTheCheckerFindsWhatAGroupMustNotDo(t *testing.T) {
	both := []Installed{members(1, 1, 2, 3), members(2, 1, 2)}
	without := func(at int) []message { return slices.Delete(slices.Clone(script), at, at+1) }
	changed := func(at int, m message) []message {
		s := slices.Clone(script)
		s[at] = m
		return s
	}
	left := func(accepted uint64) *End { return &End{Accepted: []uint64{accepted}, Begun: []uint64{0}} }
	evicted := &End{Reason: "evicted", Accepted: []uint64{5}, Begun: []uint64{1}}
	for _, c := range []struct {
		name  string
		views []Installed // of process 2
		at1   []message   // delivered at process 1; nil: the script
		at2   []message   // and at process 2
		at3   []message   // and at process 3, which is killed; nil: the first three messages
		end1  *End
		end2  *End
		want  string // part of the fault; empty: there is none
	}{
		{name: "a good run"},
		{name: "a killed process that delivered nothing", at3: []message{}},
		{name: "an evicted process that delivered less", at2: script[:4], views: both[:1], end2: evicted},
		{name: "a message is missing at one member", at2: without(3), want: "G1"},
		{name: "the last message of a view is missing at one member", at2: without(4), want: "G2, G4"},
		{name: "the last message of all is missing at one member that left", at2: without(7), want: "G2, G4"},
		{name: "a killed process delivered something else", at3: []message{{1, 0, 2, 0}}, want: "G1"},
		{name: "a killed process delivered more than the others", at3: append(slices.Clone(script[:5]), message{1, 5, 3, 1}), want: "G2, G4"},
		{name: "two members deliver in different orders", at2: changed(0, message{1, 0, 2, 0}), want: "G1"},
		{name: "the same message has another place", at2: changed(7, message{2, 9, 1, 3}), want: "G1"},
		{name: "all of them miss a message", at1: without(3), at2: without(3), want: "FIFO"},
		{name: "all of them deliver a message twice", at1: changed(5, message{2, 0, 1, 1}), at2: changed(5, message{2, 0, 1, 1}), want: "FIFO"},
		{name: "all of them lack the last message of a survivor", at1: without(7), at2: without(7), want: "G3"},
		{name: "a message more than was sent", end1: left(3), want: "sent at most 3"},
		{name: "sequence numbers fall", at1: changed(4, message{1, 1, 2, 1}), at2: changed(4, message{1, 1, 2, 1}), want: "numbers do not grow"},
		{name: "two members install different views", views: []Installed{both[0], members(2, 2, 3)}, want: "view 2 is"},
		{name: "a view is left out", views: []Installed{both[0], members(3, 1, 2)}, want: "installed view 3 after view 1"},
		{name: "a view without oneself", views: []Installed{both[0], members(2, 1)}, want: "without itself"},
		{name: "another incarnation", views: []Installed{both[0], {ID: 2, Members: []Incarnation{{1, 100}, {2, 7}}}}, want: "view 2 is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, length := range []int{1, 2, 256} {
				or := func(m, otherwise []message) []message {
					if m == nil {
						return otherwise
					}
					return m
				}
				views2 := c.views
				if views2 == nil {
					views2 = both
				}
				end1, end2 := c.end1, c.end2
				if end1 == nil {
					end1 = left(4)
				}
				if end2 == nil {
					end2 = left(3)
				}
				killed := write(t, 3, 1, both[:1], or(c.at3, script[:3]), nil)
				if length > 1 { // with so few messages, all that it delivered would be lost
					killed = write(t, 3, length, both[:1], or(c.at3, script[:3]), &End{Reason: "killed", Accepted: []uint64{9}, Begun: []uint64{0}})
				}
				err := Check([]*Log{write(t, 1, length, both, or(c.at1, script), end1), write(t, 2, length, views2, or(c.at2, script), end2), killed})
				switch {
				case c.want == "" && err != nil:
					t.Errorf("runs of %d: %v", length, err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("runs of %d: want a fault with %q, got %v", length, c.want, err)
				}
			}
		})
	}
}

func TestAMessageThatComesAfterTheNextViewIsFound(t *testing.T) {
	l := write(t, 1, 1, []Installed{members(1, 1), members(2, 1)}, []message{{1, 0, 1, 0}, {2, 0, 1, 1}}, nil)
	if err := Check([]*Log{l}); err != nil {
		t.Fatal(err)
	}
	l.Runs[0].Latest = 2
	if err := Check([]*Log{l}); err == nil || !strings.Contains(err.Error(), "came when view 2 was installed") {
		t.Errorf("got %v", err)
	}
}

func TestContentThatNobodySentIsFound(t *testing.T) {
	data := make([]byte, 100)
	pattern.fill(data, 1, 7)
	whole := squall.Message{Data: data, Sender: 1, View: 1}
	if d, err := pattern.read(whole); err != nil || d.life != 1 || d.number != 7 {
		t.Fatalf("%+v, %v", d, err)
	}
	for at := range data {
		data[at] ^= 4
		if d, err := pattern.read(whole); err == nil && d.life == 1 && d.number == 7 {
			t.Errorf("byte %d: not found", at)
		}
		data[at] ^= 4
	}
	if _, err := pattern.read(squall.Message{Data: data[:HeaderBytes-1]}); err == nil {
		t.Error("a message that is too short was taken")
	}
}

func TestALogThatWasCutOffReadsUpToThere(t *testing.T) {
	l := write(t, 1, 1, []Installed{members(1, 1)}, script[:1], nil)
	if len(l.Runs) != 1 || l.End != nil {
		t.Fatalf("%+v", l)
	}
	w := &logWriter{}
	w.raw(frameRun, l.Runs[0].append(nil))
	for n := range len(w.buf) {
		if _, _, next := frameAt(w.buf[:n], 0); next != 0 {
			t.Errorf("%d of %d bytes make a frame", n, len(w.buf))
		}
	}
	for n := range 8 { // less than a run's counters
		if _, err := parseRun(l.Runs[0].append(nil)[:n]); err == nil {
			t.Errorf("%d bytes make a run", n)
		}
	}
}
