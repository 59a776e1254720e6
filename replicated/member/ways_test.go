package member

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// noted is a call that notes what became of it.
type noted struct{ text string }

func (n *noted) Complete(o *invoke.Outcome) {
	n.text += fmt.Sprint(o.Version, o.Status, o.Session, o.Typed, plain(o.Err))
	if _, executed := answerOf(o.Status); executed && o.Err == nil && !o.Typed {
		n.text += fmt.Sprintf(" %q", o.Reply)
	}
	n.text += fmt.Sprintf(" %q", o.Args)
}

func (n *noted) Signal()    { n.text += " signalled" }
func (n *noted) Typed() any { return nil }

// typed is like noted, and takes the value of a handler that returns an R.
type typed[R any] struct {
	noted
	slot invoke.Slot[R]
}

func (c *typed[R]) Typed() any { return &c.slot }

// plain returns an error without the stack of a handler that panicked.
func plain(err error) error {
	var p *PanicError
	if errors.As(err, &p) {
		return fmt.Errorf("%s panicked at %v: %v", p.Operation, p.Version, p.Value)
	}
	return err
}

// traced is a copy that notes what its handlers, the callers of its commands and those of other
// members see.
type traced struct {
	*object
	raw    *replicated.Command[[]byte, []byte]
	text   *replicated.Command[string, []string]
	behind int // records that were applied together with the one before
	trace  []string
}

func newTraced(t *testing.T, together bool) *traced {
	d := &traced{raw: replicated.NewCommand[[]byte, []byte]("raw"), text: replicated.NewCommand[string, []string]("text")}
	do := func(sum *uint64, c *Context, args string) error {
		n := c.Rand().Uint64()
		*sum = *sum*31 + n
		d.trace = append(d.trace, fmt.Sprint(c.Version, c.Index, c.Time, c.Caller, args, n))
		switch {
		case n%8 == 0:
			return fmt.Errorf("refused %d", n)
		case n%8 == 1:
			c.Emit("topic", []byte(args))
		case n%8 == 2:
			return c.Start("task", []byte(args))
		case n%2000 == 3:
			panic("at random")
		case n%8 == 4:
			c.Time, c.Caller = 5, Caller{Member: 77} // a handler must not, and changes it for itself alone
		}
		return nil
	}
	d.object = New(squall.SubgroupConfig{Name: "traced"}, func() *uint64 { return new(uint64) },
		Handle(d.raw, func(sum *uint64, c *Context, args []byte) ([]byte, error) {
			return args, do(sum, c, string(args))
		}),
		Handle(d.text, func(sum *uint64, c *Context, args string) ([]string, error) {
			return []string{args, args}, do(sum, c, args)
		})).object
	if d.err != nil {
		t.Fatal(d.err)
	}
	if !together {
		d.check.every = 1 << 62 // a digest may be due after each command, but none is
	}
	d.self.Store(1)
	d.calls.table.Lap = func() uint32 { return 7 }
	d.applied = func(data []byte, index uint64) {
		d.trace = append(d.trace, fmt.Sprintf("applied %d %x", index, data))
		if d.failed == nil && &data[0] != &d.record.Data[0] {
			d.behind++
		}
	}
	return d
}

// Ways to wait for a record: a call of one of the commands, one that is given up, and one that
// notes all of its outcome.
const (
	callRaw = iota
	callText
	givenUp
	notes
	ways
)

// put makes a call that waits in one of the ways, and returns its number and what tells how it
// ended.
func (d *traced) put(t *testing.T, way int, args string) (call uint64, ended func() string) {
	var p invoke.Pending
	switch way {
	case callRaw:
		f := &typed[[]byte]{}
		p, ended = f, func() string { return fmt.Sprint(f.text, string(f.slot.Value)) }
	case callText:
		f := &typed[[]string]{}
		p, ended = f, func() string { return fmt.Sprint(f.text, f.slot.Value) }
	default:
		n := &noted{}
		p, ended = n, func() string { return n.text }
	}
	call, err := d.calls.put(p)
	if err != nil {
		t.Fatal(err)
	}
	if way == givenUp {
		d.calls.take(call)
	}
	return call, ended
}

// TestCommandsOfAMessageAreAppliedAlikeBothWays delivers random messages to a copy that applies
// commands together and to one that does not.
func TestCommandsOfAMessageAreAppliedAlikeBothWays(t *testing.T) {
	t.Parallel()
	behind := 0
	for seed := range testutil.Seeds[uint64](60, 200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		copies := []*traced{newTraced(t, true), newTraced(t, false)}
		time, shard := uint64(1), []int{0, 1, invoke.MaxShards}[rnd.IntN(3)]
		deliver := func(m squall.Message) {
			for _, d := range copies {
				own := m
				own.Data = bytes.Clone(m.Data)
				d.deliver([]squall.Message{own})
				for i := range own.Data { // nothing may refer to the message any more
					own.Data[i] = 0xee
				}
			}
		}
		seq := squall.Seq(1)
		enable := machine.AppendEnable(nil, machine.Header{Time: 1, Shard: shard}, 1, []string{"raw", "text"})
		deliver(squall.Message{View: 1, Seq: seq, Sender: 1, Data: enable})
		for range 60 {
			seq++
			time += rnd.Uint64N(50)
			m := squall.Message{View: 1, Seq: seq, Sender: squall.NodeID(1 + rnd.IntN(3))}
			if rnd.IntN(4) == 0 {
				m.Time = squall.Time(time)
			}
			var ends [2][]func() string
			data := machine.AppendSeveral(nil)
			for range 1 + rnd.IntN(12) {
				h := machine.Header{Shard: shard, Operation: rnd.IntN(2), Time: time + rnd.Uint64N(3)}
				if rnd.IntN(20) == 0 {
					h.Shard = rnd.IntN(128)
				}
				if rnd.IntN(30) == 0 {
					h.Operation = rnd.IntN(4)
				}
				args, way := fmt.Sprint(rnd.IntN(100)), givenUp+rnd.IntN(ways-givenUp)
				if rnd.IntN(2) == 0 {
					way = callRaw + h.Operation%2
				}
				if h.Operation == 1 && rnd.IntN(10) != 0 {
					args = string([]byte{0x60 + byte(len(args))}) + args // CBOR
				}
				command := true
				var record []byte
				switch kind := rnd.IntN(24); kind {
				case 0:
					command, record = false, machine.AppendOpen(nil, h, invoke.Token{byte(rnd.IntN(2))}, 1+rnd.Uint64N(60), invoke.Owner{Identity: "ann"})
				case 1, 2:
					n := 1 + rnd.Uint64N(30)
					command, record = false, append(machine.AppendClient(nil, h, machine.SessionNumber(invoke.Token{byte(rnd.IntN(2))}, 1+rnd.Uint64N(6)), n, rnd.Uint64N(n)), args...)
				case 3:
					h.Replies = true
					record = append(machine.AppendCommand(nil, h), args...)
				case 4:
					at := invoke.Cursor{View: 1, Seq: rnd.Uint64N(uint64(seq)), Index: 1}
					command, record = false, append(machine.AppendForwarded(nil, h, "other", invoke.Cursor{}, at), args...)
				case 5:
					record = append(machine.AppendCommand(nil, h), args...)
					record[0] = byte(13 + rnd.IntN(240)) // no kind
				case 6:
					command, record = false, machine.AppendTouch(nil, h, []uint64{1, 2})
				case 7:
					if rnd.IntN(100) == 0 {
						command, record = false, machine.AppendEnable(nil, h, 1, []string{"later"}) // a program without it fails
						break
					}
					fallthrough
				default:
					record = append(machine.AppendCommand(nil, h), args...)
				}
				if !command && way < givenUp {
					way = notes
				}
				if m.Sender == 1 {
					var calls [2]uint64
					for i, d := range copies {
						var end func() string
						calls[i], end = d.put(t, way, args)
						ends[i] = append(ends[i], end)
					}
					if calls[0] != calls[1] {
						t.Fatal("the calls have other numbers")
					}
					binary.LittleEndian.PutUint64(record[4:], calls[0])
				}
				data = machine.AppendPart(data, record, nil)
			}
			if rnd.IntN(10) != 0 {
				machine.Stamp(data, time)
			}
			m.Data = data
			deliver(m)
			for i := range ends[0] {
				if one, other := ends[0][i](), ends[1][i](); one != other {
					t.Fatalf("seed %d, message %d: call %d ended with\n%s, and\n%s", seed, seq, i, one, other)
				}
			}
			one, other := copies[0], copies[1]
			if !slices.Equal(one.trace, other.trace) {
				for i := range min(len(one.trace), len(other.trace)) {
					if one.trace[i] != other.trace[i] {
						t.Fatalf("seed %d, message %d:\n%s, and\n%s", seed, seq, one.trace[i], other.trace[i])
					}
				}
				t.Fatalf("seed %d, message %d: %d and %d entries", seed, seq, len(one.trace), len(other.trace))
			}
			if !bytes.Equal(one.machine.Append(nil), other.machine.Append(nil)) || *one.state.(*uint64) != *other.state.(*uint64) {
				t.Fatalf("seed %d, message %d: the copies differ", seed, seq)
			}
			for _, d := range copies {
				for _, r := range d.answers.waiting {
					machine.Stamp(r, 0)
				}
			}
			if !slices.EqualFunc(one.answers.waiting, other.answers.waiting, bytes.Equal) {
				t.Fatalf("seed %d, message %d: other members are answered otherwise", seed, seq)
			}
			if (one.failed == nil) != (other.failed == nil) {
				t.Fatalf("seed %d, message %d: %v, and %v", seed, seq, one.failed, other.failed)
			}
		}
		behind += copies[0].behind
		if copies[1].behind != 0 {
			t.Fatal("the other copy applied commands together")
		}
	}
	if behind < 1000 {
		t.Errorf("%d commands were applied together", behind)
	}
}
