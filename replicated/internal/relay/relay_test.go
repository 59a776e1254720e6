package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// TestRL1RL2ACallIsFoundOnceByItsNumber puts and takes calls at random, beside a model.
func TestRL1RL2ACallIsFoundOnceByItsNumber(t *testing.T) {
	seed := testutil.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	c := Calls[int]{Lap: rnd.Uint32}
	there := map[uint64]int{}
	var numbers []uint64
	for k := range 50_000 {
		if rnd.IntN(2) == 0 {
			n, err := c.Put(k)
			if _, twice := there[n]; err != nil || twice || n == 0 {
				t.Fatalf("RL2: number %d, %v", n, err)
			}
			there[n] = k
			numbers = append(numbers, n)
		} else if len(numbers) > 0 {
			n := numbers[rnd.IntN(len(numbers))]
			call, ok := c.Take(n)
			if want, here := there[n]; ok != here || ok && call != want {
				t.Fatalf("RL1: number %d finds %d, %v; want %d, %v", n, call, ok, want, here)
			}
			delete(there, n)
		}
	}
	for _, n := range []uint64{0, 1, 1 << 32, ^uint64(0)} {
		if _, ok := c.Take(n); ok {
			t.Errorf("number %d was never given, and finds a call", n)
		}
	}
	reason := errors.New("over")
	if all := c.TakeWhere(func(n uint64, call int) bool { return there[n] == call }); len(all) != len(there) {
		t.Errorf("%d calls were taken, want %d", len(all), len(there))
	}
	for n := range there {
		if _, ok := c.Take(n); ok {
			t.Errorf("number %d finds a call after all were taken", n)
		}
	}
	clear(there)
	for k := range 10 {
		n, err := c.Put(k)
		if err != nil {
			t.Fatal(err)
		}
		there[n] = k
	}
	if all := c.GiveUp(reason); len(all) != len(there) {
		t.Errorf("%d calls were given up, want %d", len(all), len(there))
	}
	if _, err := c.Put(1); !errors.Is(err, reason) {
		t.Errorf("a call after the end: %v", err)
	}
}

// A record is built before its call has a number: the number is written in afterwards.
func TestTheNumberOfACallIsWrittenIntoItsRecord(t *testing.T) {
	for _, ask := range []client.Ask{client.Open, client.Close, client.Command, client.Acknowledge} {
		r := &client.Request{Ask: ask, Session: 3, Number: 4, Acked: 2, Args: []byte("arguments")}
		h := machine.Header{Operation: 7, Shard: 2}
		record := AppendRecord(nil, r, h)
		machine.SetCall(record, 1<<63+5)
		h.Call = 1<<63 + 5
		if want := AppendRecord(nil, r, h); !bytes.Equal(record, want) {
			t.Errorf("ask %v: % x, want % x", ask, record, want)
		}
	}
}

func TestAnAnswerSaysWhatBecameOfTheRecord(t *testing.T) {
	for status, said := range map[invoke.Status]client.Said{
		invoke.Done: client.Done, invoke.Again: client.Done, invoke.Failed: client.Failed, invoke.AgainFail: client.Failed, invoke.NotThere: client.Ended,
		invoke.Disabled: client.Unknown, invoke.Elsewhere: client.Away, invoke.Forgotten: client.Else, invoke.TooMany: client.Else, invoke.Malformed: client.Else,
		invoke.Full: client.Full, invoke.NotKept: client.Cut, invoke.Crowded: client.Crowded, invoke.Early: client.Else,
	} {
		a, err := client.ParseAnswer(AppendResult(nil, 3, 4, status, 0, []byte("reply")))
		if err != nil || a.Said != said || a.View != 3 || a.Seq != 4 {
			t.Errorf("%v is told as %+v, %v", status, a, err)
		}
		if want := "reply"; said != client.Else && said != client.Away && string(a.Text) != want {
			t.Errorf("%v has the text %q", status, a.Text)
		}
	}
	if a, _ := client.ParseAnswer(AppendResult(nil, 3, 4, invoke.Done, 77, nil)); len(a.Text) != 8 || binary.LittleEndian.Uint64(a.Text) != 77 {
		t.Errorf("a session is told as % x", a.Text)
	}
}
