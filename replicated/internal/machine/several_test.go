package machine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// several returns a message of several records.
func several(time uint64, records ...[]byte) []byte {
	b := machine.AppendSeveral(nil)
	for _, r := range records {
		b = machine.AppendPart(b, r[:len(r)/2], r[len(r)/2:])
	}
	machine.Stamp(b, time)
	return b
}

func split(message []byte) (time uint64, all [][]byte) {
	rs := machine.Split(message)
	for r, ok := rs.Next(); ok; r, ok = rs.Next() {
		all = append(all, r)
	}
	return rs.Time, all
}

func TestAMessageHasOneRecordOrSeveral(t *testing.T) {
	one := machine.AppendCommand(nil, machine.Header{Call: 1, Time: 5})
	two := append(machine.AppendCommand(nil, machine.Header{Call: 2}), "arguments"...)
	for _, c := range []struct {
		message []byte
		time    uint64
		want    [][]byte
	}{
		{nil, 0, [][]byte{nil}},
		{one, 0, [][]byte{one}},
		{several(7, one), 7, [][]byte{one}},
		{several(7, one, two, one), 7, [][]byte{one, two, one}},
	} {
		time, got := split(c.message)
		if time != c.time || !slices.EqualFunc(got, c.want, bytes.Equal) {
			t.Errorf("% x: %d, % x", c.message, time, got)
		}
	}
}

// TestSeveralRecordsThatAreNot checks that a message which is not as it should be is one record,
// and that no machine executes it.
func TestSeveralRecordsThatAreNot(t *testing.T) {
	o := enabled(t)
	good := several(9, machine.AppendCommand(nil, machine.Header{}), machine.AppendCommand(nil, machine.Header{}))
	bad := [][]byte{several(9), several(9, good), several(9, good[:19]), append(bytes.Clone(good), 0)}
	for n := range good {
		bad = append(bad, good[:n])
	}
	for _, length := range []uint32{0, 19, 21, 1 << 31, 1<<32 - 1} {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[machine.SeveralBytes:], length)
		bad = append(bad, b)
	}
	before := o.Executed()
	for _, b := range bad {
		if first := machine.SeveralBytes + machine.PartBytes + machine.CommandBytes; len(b) == first && bytes.Equal(b, good[:first]) {
			continue // one record, and all of it
		}
		if _, all := split(b); len(all) != 1 || !bytes.Equal(all[0], b) {
			t.Errorf("% x: % x", b, all)
		}
		if r := o.apply(record(1, 1, b)); r.Status != invoke.Malformed {
			t.Errorf("% x: %v", b, r.Status)
		}
	}
	if o.Executed() != before {
		t.Error("something was executed")
	}
}

// TestCursorsOfOneMessageDiffer has the commands of one message emit events and send.
func TestCursorsOfOneMessageDiffer(t *testing.T) {
	o := enabled(t)
	session := o.apply(record(1, 1, openSession(2, 1, 1<<40, ""))).Session
	o.position++
	at := o.position + 1
	_, all := split(several(3, client(3, session, 1, 0, "four"), client(3, session, 2, 0, "ab"), client(3, session, 3, 0, "FOUR")))
	for _, data := range all {
		o.position = at - 1
		if r := o.apply(record(1, 1, data)); r.Status != invoke.Done {
			t.Fatal(r.Status)
		}
	}
	events, _ := o.Events(invoke.Cursor{})
	for i, e := range events {
		if want := (invoke.Cursor{View: 1, Seq: at, Index: uint64(i + 1)}); e.Cursor != want {
			t.Errorf("event %d has the cursor %v, want %v", i, e.Cursor, want)
		}
	}
	sent := o.Outgoing(target, invoke.Cursor{})
	for i, s := range sent {
		if want := (invoke.Cursor{View: 1, Seq: at, Index: uint64(i + 1)}); s.Cursor != want {
			t.Errorf("what was sent at %d has the cursor %v, want %v", i, s.Cursor, want)
		}
	}
	if len(events) != 4 || len(sent) != 2 {
		t.Errorf("%d events, and %d sent", len(events), len(sent))
	}
	var b machine.Machine
	if err := b.Decode(o.Append(nil)); err != nil {
		t.Error(err)
	}
}

// applyMessage applies the records of a message in their order. If together is true, ApplyCommand
// applies each record that it accepts, and Apply the other records; otherwise Apply applies all of
// them. It returns the number of records that ApplyCommand accepted.
func (o *object) applyMessage(sender uint64, message []byte, together bool) (accepted int) {
	position := o.position + 1
	rs := machine.Split(message)
	for data, ok := rs.Next(); ok; data, ok = rs.Next() {
		o.position = position - 1
		r := record(1, sender, data)
		r.Time = rs.Time
		o.apply(r)
		for together {
			operation, data, ok := o.ApplyCommand(&rs)
			if !ok {
				break
			}
			accepted++
			o.application.Execute(&machine.Execution{Operation: operation, Sender: sender, Time: o.Time()}, data[machine.CommandBytes:], nil)
		}
	}
	return accepted
}

// TestApplyCommandDoesWhatApplyDoes applies the same random messages to two machines, of which one
// uses ApplyCommand, and compares their states and the commands that they executed.
func TestApplyCommandDoesWhatApplyDoes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	one, other := enabled(t), enabled(t)
	one.position = other.position
	accepted := 0
	for time := uint64(2); time < 3000; {
		time += rnd.Uint64N(3)
		var records [][]byte
		for range 1 + rnd.IntN(8) {
			h := machine.Header{Call: rnd.Uint64(), Time: time + rnd.Uint64N(3)}
			args := fmt.Sprint(rnd.IntN(100))
			switch rnd.IntN(8) {
			case 0:
				records = append(records, openSession(time, byte(rnd.Uint32()), rnd.Uint64N(4), ""))
			case 1:
				records = append(records, client(time, rnd.Uint64N(1<<36), 1+rnd.Uint64N(3), 0, args))
			case 2:
				h.Replies = true
				records = append(records, append(machine.AppendCommand(nil, h), args...))
			case 3:
				h.Shard, h.Operation = rnd.IntN(2), rnd.IntN(2)
				records = append(records, append(machine.AppendCommand(nil, h), args...))
			default:
				records = append(records, append(machine.AppendCommand(nil, h), args...))
			}
		}
		message := several(time, records...)
		one.applyMessage(2, message, false)
		accepted += other.applyMessage(2, message, true)
		if !bytes.Equal(one.Append(nil), other.Append(nil)) {
			t.Fatalf("at %d the machines differ", time)
		}
	}
	if !slices.Equal(one.executed, other.executed) {
		t.Error("other commands were executed")
	}
	if one.Executed() == 0 || accepted < 1000 {
		t.Errorf("ApplyCommand accepted %d of %d commands", accepted, one.Executed())
	}
}
