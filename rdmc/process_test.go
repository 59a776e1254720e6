package rdmc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"go.uber.org/goleak"
)

// childCommand is the command of a process that does what its parent says.
const childCommand = "member"

func TestMain(m *testing.M) {
	proc.Become(proc.Program{Name: childCommand, Run: child})
	testutil.Overlap(4)
	goleak.VerifyTestMain(m)
}

// task is the first thing that a child is told when it has said where it listens.
type task struct {
	Members []Peer
	Root    int
	Size    int
	View    bool
	Keep    bool // never releases a view
}

// child is one member, and answers each command.
func child(ctx context.Context, parent *proc.Parent) error {
	var id order.NodeID
	if err := parent.Config(&id); err != nil {
		return err
	}
	n, err := Open(ctx, Config{Self: Peer{ID: id, Addr: "127.0.0.1:0"}})
	if err != nil {
		return err
	}
	defer n.Close()
	if err := parent.Send(n.Peer()); err != nil {
		return err
	}
	var t task
	if err := parent.Receive(ctx, &t); err != nil {
		return err
	}
	buffer, other := make([]byte, t.Size), make([]byte, t.Size)
	for i := range buffer {
		buffer[i], other[i] = 1, 2
	}
	g, err := n.Start(GroupConfig{
		Name: "g", Members: t.Members, Root: t.Root, InPlace: t.View,
		Incoming: func(in Incoming) ([]byte, error) { return buffer[:in.Size], nil },
		Completed: func(m Message) {
			if !t.Keep {
				m.Release()
			}
		},
	})
	if err != nil {
		return err
	}
	defer g.Discard()
	for {
		var command string
		if err := parent.Receive(ctx, &command); errors.Is(err, proc.ErrParentGone) {
			return nil
		} else if err != nil {
			return err
		}
		switch command {
		case "memcpy":
			copy(other, buffer)
		case "send": // a whole message, and half of another one
			for _, filled := range []int64{-1, int64(t.Size) / 2} {
				m, err := n.Alloc(t.Size)
				if err != nil {
					return err
				}
				copy(m.Bytes(), "hello")
				if _, err := g.Start(Outgoing{Data: m.Bytes(), Filled: filled}); err != nil {
					return err
				}
			}
		}
		if err := parent.Send("done"); err != nil {
			return err
		}
	}
}

// process is a child, seen from its parent.
type process struct {
	*proc.Child
	t    testing.TB
	Peer Peer
}

func spawn(t testing.TB, id int) *process {
	t.Helper()
	c, err := proc.Start(context.Background(), childCommand, id, proc.Options{ID: id, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Child: c, t: t}
	t.Cleanup(p.end)
	if err := p.Receive(testutil.Within(t), &p.Peer); err != nil {
		t.Fatal(err)
	}
	return p
}

// end waits for the end of a child, which it makes if it does not come.
func (p *process) end() {
	p.CloseInput()
	timer := time.AfterFunc(20*time.Second, p.Kill)
	defer timer.Stop()
	_ = p.Wait() // it may have been killed
}

func (p *process) read() (said string) {
	p.t.Helper()
	if err := p.Receive(testutil.Within(p.t), &said); err != nil {
		p.t.Fatal(err)
	}
	return said
}

func (p *process) say(what any) {
	p.t.Helper()
	if err := p.Send(what); err != nil {
		p.t.Fatal(err)
	}
}

// fleet is this process, as node 1, and some children.
func fleet(t testing.TB, children int, k task, c GroupConfig) (*Node, *Group, []*process) {
	t.Helper()
	n, err := Open(context.Background(), Config{Self: Peer{ID: 1, Addr: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	k.Members = []Peer{n.Peer()}
	var all []*process
	for i := range children {
		p := spawn(t, i+2)
		all = append(all, p)
		k.Members = append(k.Members, p.Peer)
	}
	for _, p := range all {
		p.say(k)
	}
	c.Name, c.Members, c.Root = "g", k.Members, k.Root
	g, err := n.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Discard)
	select {
	case <-g.complete:
	case <-time.After(20 * time.Second):
		t.Fatal("the children did not come")
	}
	return n, g, all
}

func TestARootThatIsKilledTakesNoViewAway(t *testing.T) {
	t.Parallel()
	sharesMemory(t)
	for _, view := range []bool{true, false} {
		messages, failed := make(chan Message, 2), make(chan error, 1)
		_, _, all := fleet(t, 2, task{Root: 1, Size: 20 << 20, View: true}, GroupConfig{
			InPlace: view, Completed: func(m Message) { messages <- m }, Failed: func(err error) { failed <- err },
		})
		all[0].say("send")
		m := receive(t, messages, "message")
		all[0].Kill()
		var f *Failure
		if err := receive(t, failed, "failure"); !errors.As(err, &f) || f.Code != FailureGone || f.Node != 2 {
			t.Fatal(err)
		}
		if m.InPlace != view || !strings.HasPrefix(string(m.Data[:10]), "hello") || len(m.Data) != 20<<20 {
			t.Fatalf("%d bytes, view: %v", len(m.Data), m.InPlace)
		}
		for _, b := range m.Data { // every page is there
			_ = b
		}
		m.Release()
	}
}

func TestMemoryThatAKilledReceiverLookedAtIsNotUsedAgain(t *testing.T) {
	sharesMemory(t)
	failed := make(chan error, 1)
	n, g, all := fleet(t, 2, task{Size: 1 << 20, View: true, Keep: true}, GroupConfig{Failed: func(err error) { failed <- err }})
	m, err := n.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	m.Bytes()[0] = 1
	sent, everywhere := make(chan error, 1), make(chan error, 1)
	if _, err := g.Start(Outgoing{Data: m.Bytes(), Filled: -1, Sent: func(err error) { sent <- err }, Everywhere: func(err error) { everywhere <- err }}); err != nil {
		t.Fatal(err)
	}
	m.Release()
	if err := receive(t, everywhere, "end"); err != nil {
		t.Fatal(err)
	}
	all[1].Kill()
	if err := receive(t, failed, "failure"); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	if err := receive(t, sent, "end"); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	if o, err := n.Alloc(1 << 20); err != nil || o.Bytes()[0] != 0 {
		t.Fatalf("it is used again: %v", err)
	}
}

// BenchmarkSameHost is one message to three other processes of this host, and what a copy of it
// costs three processes at a time. Fresh memory is mapped by its receivers for the first time.
func BenchmarkSameHost(b *testing.B) {
	sharesMemory(b)
	for _, how := range []string{"memcpy", "copy", "copy-fresh", "view", "view-fresh", "blocks"} {
		for _, mib := range []int{1, 16, 256} {
			benchmarkSameHost(b, how, mib)
		}
	}
}

func benchmarkSameHost(b *testing.B, how string, mib int) {
	size := mib << 20
	b.Run(fmt.Sprintf("how=%s/nodes=4/size=%dMiB", how, mib), func(b *testing.B) {
		n, g, all := fleet(b, 3, task{Size: size, View: strings.HasPrefix(how, "view")}, GroupConfig{})
		data := make([]byte, size)
		renew := func() func() { // memory that no receiver has mapped yet
			m, err := n.Alloc(size)
			if err != nil {
				b.Fatal(err)
			}
			data = m.Bytes()
			return m.Release
		}
		if how != "blocks" {
			defer renew()()
		}
		for i := range data {
			data[i] = byte(i)
		}
		once := func() { sendOnce(b, g, data) }
		if how == "memcpy" {
			once = func() { tellAll(all, "memcpy") }
		}
		once() // pages are mapped, and made
		b.SetBytes(int64(size))
		for b.Loop() {
			if strings.HasSuffix(how, "fresh") {
				b.StopTimer()
				defer renew()()
				b.StartTimer()
			}
			once()
		}
	})
}

// sendOnce sends, and waits until all have it.
func sendOnce(b *testing.B, g *Group, data []byte) {
	everywhere, sent := make(chan error, 1), make(chan error, 1)
	_, err := g.Start(Outgoing{Data: data, Filled: -1, Everywhere: func(err error) { everywhere <- err }, Sent: func(err error) { sent <- err }})
	for _, c := range []chan error{everywhere, sent} {
		if err == nil {
			err = <-c
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}

// tellAll makes all children do something at a time.
func tellAll(all []*process, what string) {
	for _, p := range all {
		p.say(what)
	}
	for _, p := range all {
		p.read()
	}
}
