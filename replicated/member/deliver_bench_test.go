package member

import (
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// nothing is a call whose outcome nothing looks at.
type nothing struct{}

func (nothing) Complete(*invoke.Outcome) {}
func (nothing) Signal()                  {}
func (nothing) Typed() any               { return nil }

// counter returns a copy at a member in no group, which executes a command that counts.
func counter(self uint64, count *replicated.Command[[]byte, []byte]) *Object[*struct{}] {
	n := 0
	o := New(squall.SubgroupConfig{Name: "counter"}, func() *struct{} { return &struct{}{} },
		Handle(count, func(*struct{}, *Context, []byte) ([]byte, error) {
			n++
			return nil, nil
		}))
	o.object.self.Store(self)
	o.object.calls.table.Lap = func() uint32 { return 0 }
	h := machine.Header{Time: 1}
	o.object.deliver([]squall.Message{{View: 1, Sender: squall.NodeID(self), Data: machine.AppendKnows(nil, h, 1, []string{"count"})}})
	o.object.deliver([]squall.Message{{View: 1, Sender: squall.NodeID(self), Data: machine.AppendEnable(nil, h, 1, []string{"count"})}})
	o.object.together = []*object{o.object}
	return o
}

// BenchmarkGo calls commands that gather, delivers their message to this member, and waits for
// them.
func BenchmarkGo(b *testing.B) {
	const batch, self = 64, 1
	count := replicated.NewCommand[[]byte, []byte]("count")
	o, body := counter(self, count), make([]byte, 100)
	o.object.sending.limit(1 << 20)
	if _, err := o.object.calls.put(nothing{}); err != nil { // no call is alone
		b.Fatal(err)
	}
	var under [batch]*replicated.Future[[]byte]
	seq := squall.Seq(0)
	b.ReportAllocs()
	for i := 0; i < b.N; i += batch {
		for k := range under {
			f, err := count.Go(b.Context(), o, body)
			if err != nil {
				b.Fatal(err)
			}
			under[k] = f
		}
		seq++
		data, _, _ := o.object.sending.batch.Seal(2)
		o.object.sending.batch.Sent()
		o.object.deliver([]squall.Message{{View: 1, Seq: seq, Sender: self, Data: data}})
		for _, f := range under {
			if _, err := f.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkDeliver delivers batches of commands to one copy: those of this member, of other
// members, and of clients' sessions.
func BenchmarkDeliver(b *testing.B) {
	const batch, self = 64, 1
	copyOf := func() *object { return counter(self, replicated.NewCommand[[]byte, []byte]("count")).object }
	for name, from := range map[string]squall.NodeID{"own": self, "of others": 2} {
		b.Run(name, func(b *testing.B) {
			o, messages := copyOf(), make([]squall.Message, batch)
			for i := range messages {
				messages[i] = squall.Message{View: 1, Sender: from, Data: append(machine.AppendCommand(nil, machine.Header{Time: 2}), make([]byte, 100)...)}
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += batch {
				for k := range messages {
					messages[k].Seq++
					if from == self {
						call, _ := o.calls.put(nothing{})
						machine.AppendCommand(messages[k].Data[:0], machine.Header{Time: 2, Call: call})
					}
				}
				o.deliver(messages)
			}
		})
	}
	b.Run("of others, one message", func(b *testing.B) {
		o, records := copyOf(), machine.AppendSeveral(nil)
		for range batch {
			records = machine.AppendPart(records, machine.AppendCommand(nil, machine.Header{}), make([]byte, 100))
		}
		machine.Stamp(records, 2)
		messages := []squall.Message{{View: 1, Sender: 2, Data: records}}
		b.ReportAllocs()
		for i := 0; i < b.N; i += batch {
			messages[0].Seq++
			o.deliver(messages)
		}
	})
	b.Run("clients", func(b *testing.B) {
		o, messages := copyOf(), make([]squall.Message, batch)
		numbers := make([]uint64, batch)
		for i := range messages {
			messages[i] = squall.Message{View: 1, Sender: 2, Data: machine.AppendOpen(nil, machine.Header{Time: 2}, invoke.Token{byte(i)}, 1e18, invoke.Owner{})}
		}
		o.deliver(messages)
		for i := range messages {
			numbers[i] = machine.SessionNumber(invoke.Token{byte(i)}, uint64(i+1))
			messages[i].Data = make([]byte, machine.ClientBytes+100)
		}
		b.ReportAllocs()
		n := uint64(0)
		for i := 0; i < b.N; i += batch {
			n++
			for k := range messages {
				messages[k].Seq++
				machine.AppendClient(messages[k].Data[:0], machine.Header{Time: 2}, numbers[k], n, n-1)
			}
			o.deliver(messages)
		}
		if o.machine.Executed() < uint64(b.N) {
			b.Errorf("%d commands were executed of %d", o.machine.Executed(), b.N)
		}
	})
}
