package machine_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// remembered is what a machine should know of a session.
type remembered struct {
	token           uint32
	timeout, expiry uint64
	acked           uint64
	replies         map[uint64]remembrance
}

// remembrance is the reply of a number: its length, and whether it is not there any more.
type remembrance struct {
	bytes int
	cut   bool
}

func (r *remembered) acknowledge(acked uint64) {
	r.acked = max(r.acked, acked)
	for n := range r.replies {
		if n <= r.acked {
			delete(r.replies, n)
		}
	}
}

func (r *remembered) kept() (bytes int) {
	for _, reply := range r.replies {
		if !reply.cut {
			bytes += reply.bytes
		}
	}
	return bytes
}

// clients is a machine with what it should know of its sessions, of which few are open.
type clients struct {
	*sessions
	*rand.Rand
	bulky *bulky
	known map[uint64]*remembered
	all   []uint64 // that were opened
}

// any returns the number of a session, which may have ended.
func (c *clients) any() uint64 {
	if len(c.all) == 0 || c.IntN(20) == 0 {
		return c.Uint64()
	}
	return c.all[max(0, len(c.all)-1-c.IntN(6))]
}

// pass lets time pass, and ends the sessions whose time is over.
func (c *clients) pass() {
	c.time += min(uint64(c.IntN(20)), math.MaxUint64-1-c.time)
	if c.IntN(30) == 0 {
		c.view++
		for _, k := range c.known {
			k.expiry = c.after(k.timeout)
		}
	}
	for number, k := range c.known {
		if k.expiry <= c.time {
			delete(c.known, number)
		}
	}
}

// after returns the end of a timeout that begins now. The largest time has no end.
func (c *clients) after(timeout uint64) uint64 { return c.time + min(timeout, math.MaxUint64-c.time) }

func (c *clients) touched(number uint64) *remembered {
	k := c.known[number]
	if k != nil {
		k.expiry = c.after(k.timeout)
	}
	return k
}

// open opens a session with one of few tokens.
func (c *clients) open() (want, got invoke.Status) {
	var token invoke.Token
	number := 1 + c.Uint32N(4)
	binary.LittleEndian.PutUint32(token[:], number)
	timeout := 50 + c.Uint64N(100)
	r := c.apply(machine.AppendOpen(nil, machine.Header{}, token, timeout, invoke.Owner{}), nil)
	for session, k := range c.known {
		if k.token != number {
			continue
		}
		if c.touched(session); r.Session != session {
			return invoke.Again, r.Status
		}
		return invoke.Done, r.Status
	}
	c.known[r.Session] = &remembered{token: number, timeout: timeout, expiry: c.after(timeout), replies: map[uint64]remembrance{}}
	c.all = append(c.all, r.Session)
	return invoke.Done, r.Status
}

// command executes a number of a session, or does not.
func (c *clients) command() (want, got invoke.Status) {
	session := c.any()
	number, acked := 1+c.Uint64N(8), uint64(0)
	if k := c.known[session]; k != nil {
		number += k.acked
		acked = k.acked - min(k.acked, c.Uint64N(2)) + c.Uint64N(2)
		number -= min(number-1, c.Uint64N(4))
		acked = min(acked, number-1)
	}
	bytes := c.IntN(100)
	if c.IntN(3) == 0 {
		bytes = machine.MaxKeptBytes/4 + c.IntN(3) - 1
	}
	if c.IntN(20) == 0 {
		bytes = machine.MaxKeptBytes + c.IntN(2)
	}
	before := c.bulky.executed
	r := c.call(c.bulky, session, number, acked, bytes)
	k := c.touched(session)
	want = invoke.Done
	if k == nil {
		want = invoke.NotThere
	} else {
		k.acknowledge(acked)
		reply, found := k.replies[number]
		switch {
		case number <= k.acked:
			want = invoke.Forgotten
		case found && reply.cut:
			want = invoke.NotKept
		case found:
			want, bytes = invoke.Again, reply.bytes
		case number > k.acked+1 && k.kept() > machine.MaxKeptBytes:
			want = invoke.Full
		default:
			k.replies[number] = remembrance{bytes, bytes > machine.MaxKeptBytes}
		}
	}
	if executed := c.bulky.executed > before; executed != (want == invoke.Done) {
		c.t.Fatalf("RO1: number %d is executed: %v, and should be %v", number, executed, want)
	}
	if (want == invoke.Done || want == invoke.Again) && len(r.Reply) != bytes {
		c.t.Fatalf("RO2: number %d has a reply of %d bytes, want %d", number, len(r.Reply), bytes)
	}
	return want, r.Status
}

// acknowledge says which replies are not needed any more.
func (c *clients) acknowledge() (want, got invoke.Status) {
	session, acked := c.any(), uint64(0)
	if k := c.known[session]; k != nil {
		acked = k.acked + c.Uint64N(2)
	}
	bits := byte(c.Uint32())
	got = c.apply(machine.AppendAcknowledge(nil, machine.Header{}, session, acked, []byte{bits}), c.bulky).Status
	k := c.touched(session)
	if k == nil {
		return invoke.NotThere, got
	}
	k.acknowledge(acked)
	for n, reply := range k.replies {
		if bit := n - acked - 1; bit < 8 && bits>>bit&1 == 1 {
			k.replies[n] = remembrance{reply.bytes, true}
		}
	}
	return invoke.Done, got
}

func (c *clients) step() (did string, want, got invoke.Status) {
	c.pass()
	switch c.IntN(16) {
	case 0, 1:
		want, got = c.open()
		return "open", want, got
	case 2:
		session := c.any()
		want = invoke.NotThere
		if c.known[session] != nil && c.IntN(3) == 0 {
			want = invoke.Done
			delete(c.known, session)
		} else if c.known[session] != nil {
			return "nothing", 0, 0
		}
		return "close", want, c.apply(machine.AppendClose(nil, machine.Header{}, session), c.bulky).Status
	case 3:
		some := []uint64{c.any(), c.any()}
		got = c.apply(machine.AppendTouch(nil, machine.Header{}, some), c.bulky).Status
		for _, session := range some {
			c.touched(session)
		}
		return "touch", invoke.Done, got
	case 4, 5, 6:
		want, got = c.acknowledge()
		return "acknowledge", want, got
	default:
		want, got = c.command()
		return "command", want, got
	}
}

// RO1 to RO4: a machine does with random records of clients what a plain list of sessions and
// replies does, also after it was encoded and decoded.
func TestSessionsDoAsTheModelDoes(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(8) {
		s, b := newSessions(t)
		c := &clients{sessions: s, Rand: rand.New(rand.NewPCG(seed, 3)), bulky: b, known: map[uint64]*remembered{}}
		if seed == 0 {
			c.time = math.MaxUint64 - 10_000 // of a clock that is centuries ahead
		}
		for i := range 1500 {
			did, want, got := c.step()
			if did == "nothing" {
				continue
			}
			if want != got {
				t.Fatalf("seed %d, step %d: %s: %v, want %v", seed, i, did, got, want)
			}
			seen[fmt.Sprint(did, " ", got)]++
			if c.Sessions() != len(c.known) {
				t.Fatalf("RO3: seed %d, step %d: %s: %d sessions, want %d", seed, i, did, c.Sessions(), len(c.known))
			}
			if c.IntN(100) == 0 {
				c.sessions = c.decoded()
				b.Machine = &c.Machine
			}
		}
	}
	for _, what := range []string{"open", "close", "close no such session", "touch", "acknowledge", "command", "command no such session", "command done before"} {
		if seen[what]+seen[what+" done"] < 50 {
			t.Errorf("%s: %d times", what, seen[what]+seen[what+" done"])
		}
	}
	for _, status := range []invoke.Status{invoke.Forgotten, invoke.NotKept, invoke.Full} {
		if what := fmt.Sprint("command ", status); seen[what] < 10 {
			t.Errorf("%s: %d times", what, seen[what])
		}
	}
}
