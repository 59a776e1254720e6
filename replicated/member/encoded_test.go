package member

import (
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// counted is a codec that counts what it encodes.
type counted struct {
	replicated.Codec[[]byte]
	n *int
}

func (c counted) Append(b []byte, v *[]byte) ([]byte, error) {
	*c.n++
	return c.Codec.Append(b, v)
}

func TestAReplyIsEncodedWhereItIsRead(t *testing.T) {
	const self, other = 1, 2
	encoded := 0
	step := replicated.NewCommand[[]byte, []byte]("step").Encoded(replicated.Raw(), counted{replicated.Raw(), &encoded})
	o := New(squall.SubgroupConfig{Name: "steps"}, func() *struct{} { return &struct{}{} },
		Handle(step, func(*struct{}, *Context, []byte) ([]byte, error) { return []byte("reply"), nil })).object
	o.self.Store(self)
	o.calls.table.Lap = func() uint32 { return 7 }
	h := machine.Header{Time: 1}
	seq := squall.Seq(0)
	deliver := func(from squall.NodeID, data []byte) {
		seq++
		o.deliver([]squall.Message{{View: 1, Seq: seq, Sender: from, Data: data}})
	}
	deliver(self, machine.AppendKnows(nil, h, 1, []string{"step"}))
	deliver(self, machine.AppendEnable(nil, h, 1, []string{"step"}))
	deliver(other, machine.AppendOpen(nil, h, invoke.Token{1}, 1e18, invoke.Owner{}))
	session := machine.SessionNumber(invoke.Token{1}, 1)
	call, err := o.calls.put(nothing{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		what string
		from squall.NodeID
		data []byte
		want int
	}{
		{"another member's command", other, machine.AppendCommand(nil, h), 0},
		{"another member's command with all replies", other, machine.AppendCommand(nil, machine.Header{Time: 1, Replies: true}), 1},
		{"another member's command after it", other, machine.AppendCommand(nil, h), 0},
		{"a call of this process", self, machine.AppendCommand(nil, machine.Header{Time: 1, Call: call}), 1},
		{"a client's command", other, machine.AppendClient(nil, h, session, 1, 0), 1},
	} {
		encoded = 0
		before := o.machine.Executed()
		deliver(x.from, x.data)
		if encoded != x.want || o.machine.Executed() != before+1 {
			t.Errorf("%s: %d replies were encoded, want %d; %d commands were executed", x.what, encoded, x.want, o.machine.Executed()-before)
		}
	}
}
