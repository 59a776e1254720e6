package demo

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/squall-go/squall"
)

// heard collects reports.
type heard struct{ reports []subjectReport }

func (h *heard) say(r subjectReport) { h.reports = append(h.reports, r) }

func (h *heard) fault() string {
	for _, r := range h.reports {
		if r.Fault != "" {
			return r.Fault
		}
	}
	return ""
}

func message(view squall.ViewID, process, number uint64) squall.Message {
	data := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, process), number)
	return squall.Message{Sender: squall.NodeID(process), View: view, Data: append(data, "text"...)}
}

func TestTheDigestDoesNotDependOnRunsAndIsHandedOver(t *testing.T) {
	var h heard
	one, two, late := newReplica(h.say), newReplica(h.say), newReplica(h.say)
	run := []squall.Message{message(1, 1, 0), message(1, 2, 0), message(1, 1, 1), message(1, 2, 1)}
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
	want := one.account()
	for _, r := range []*replica{two, late} {
		if got := r.account(); got.Mark != want.Mark || got.Mark.Messages != 4 || got.Bytes != want.Bytes {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
	if want := []uint64{0, 2, 2}; !one.has(want) || !late.has(want) || one.has([]uint64{0, 2, 3}) || one.has([]uint64{0, 0, 0, 1}) {
		t.Errorf("delivered %v and %v", one.delivered, late.delivered)
	}
	if f := h.fault(); f != "" {
		t.Error(f)
	}
}

func TestWhatIsMissingTwiceOrOutOfOrderIsFoundAtOnce(t *testing.T) {
	for want, run := range map[string][]squall.Message{
		"message 1 of process 3 (node 3) was delivered in view 1 where message 0 was due": {message(1, 3, 1)},
		"message 0 of process 3 (node 3) was delivered in view 1 where message 1 was due": {message(1, 3, 0), message(1, 3, 0)},
		"a message of view 1 was delivered behind one of view 2":                          {message(2, 3, 0), message(1, 3, 1)},
		"a message of node 9 has 2 bytes":                                                 {{Sender: 9, View: 1, Data: []byte("no")}},
		"a message of node 70000 says that it is from process 70000":                      {message(1, 70000, 0)},
	} {
		var h heard
		newReplica(h.say).deliver(run)
		if got := h.fault(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestEveryViewThatIsOverGetsAMark(t *testing.T) {
	var h heard
	r := newReplica(h.say)
	r.deliver([]squall.Message{message(2, 1, 0), message(2, 1, 1), message(5, 1, 2)})
	var over []squall.ViewID
	for _, said := range h.reports {
		if m := said.Mark; m != nil && m.What == atViewEnd && m.Messages == 2 {
			over = append(over, m.View)
		}
	}
	if last := h.reports[len(h.reports)-1]; len(over) != 3 || over[0] != 2 || over[2] != 4 || last.Pause == nil || last.Pause.View != 5 {
		t.Fatalf("%v, then %+v", over, last)
	}
}
