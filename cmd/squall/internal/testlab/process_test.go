//go:build system

package testlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/internal/proc"
)

// Process is a member of a group in another process, as the test sees it. Its methods may be called
// from any goroutine.
type Process struct {
	Spec  Spec
	child *proc.Child
	host  *netlab.Host

	asking  sync.Mutex // one request at a time
	answers chan Answer
	ended   chan struct{} // closed when the process is gone

	mu      sync.Mutex
	changed *sync.Cond // of what follows
	addr    string
	open    bool
	view    *Installed // the last one that it installed
	views   []*Installed
	acked   []heard
	halted  string // what kind of halt, and why
	events  []string
	exit    error
	gone    bool
	killed  bool // by the test
	left    bool
}

// start begins a process, on a host or, without one, here.
func start(spec Spec, host *netlab.Host, env []string) (*Process, error) {
	p := &Process{Spec: spec, host: host, answers: make(chan Answer, 1), ended: make(chan struct{})}
	p.changed = sync.NewCond(&p.mu)
	stderr, err := os.Create(spec.Log + ".err")
	if err != nil {
		return nil, err
	}
	o := proc.Options{ID: spec.Life, Role: "process", Env: env, Log: stderr}
	if host != nil {
		o.Enter = host.Enter
	}
	if p.child, err = proc.Start(context.Background(), Command, spec, o); err != nil {
		return nil, errors.Join(err, stderr.Close())
	}
	go func() {
		defer close(p.ended)
		p.listen()
		err := p.child.Wait()
		p.update(func() { p.gone, p.exit = true, errors.Join(err, stderr.Close()) })
	}()
	return p, nil
}

// listen takes what the process says, to its end.
func (p *Process) listen() {
	for {
		var n News
		if err := p.child.Receive(context.Background(), &n); err != nil {
			return
		}
		if n.Kind == NewsAnswer {
			p.answers <- *n.Answer
			continue
		}
		p.update(func() { p.hear(n) })
	}
}

func (p *Process) hear(n News) {
	switch n.Kind {
	case NewsListening:
		p.addr = n.Text
	case NewsView:
		if p.view == nil || n.View.ID > p.view.ID {
			p.view = n.View
			p.views = append(p.views, n.View)
		}
		p.open = p.open || n.Text == "open"
	case NewsEvent:
		p.events = append(p.events, n.Text)
	case NewsHalted:
		p.halted = n.Text
	case NewsAcked:
		for _, a := range n.Acked {
			p.acked = append(p.acked, heard{a, p.view.ID})
		}
	}
}

func (p *Process) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

// errGone says that a process ended before it did what it was waited for.
var errGone = errors.New("the process is gone")

// await waits until something holds of the process, which is locked meanwhile.
func (p *Process) await(what string, within time.Duration, holds func() bool) error {
	late := false
	defer time.AfterFunc(within, func() { p.update(func() { late = true }) }).Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !holds() {
		switch {
		case p.gone:
			return fmt.Errorf("process %d (node %d): %s: %w: %v; halted: %q", p.Spec.Life, p.Spec.ID, what, errGone, p.exit, p.halted)
		case late:
			return fmt.Errorf("process %d (node %d): not within %v: %s; it is in %v", p.Spec.Life, p.Spec.ID, within, what, p.view)
		}
		p.changed.Wait()
	}
	return nil
}

// openTime is how long a process tries to get into a group.
const openTime = 30 * time.Second

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// AwaitView waits until the process has installed a view of these nodes.
func (p *Process) AwaitView(nodes ...squall.NodeID) error {
	slices.Sort(nodes)
	return p.await(fmt.Sprintf("a view of nodes %v", nodes), patience, func() bool {
		return p.view != nil && slices.Equal(slices.Sorted(slices.Values(p.view.Nodes())), nodes)
	})
}

// AwaitHalt waits until the process halted by itself, and returns what kind of halt it was, and
// why.
func (p *Process) AwaitHalt() (string, error) {
	err := p.await("a halt", patience, func() bool { return p.halted != "" })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halted, err
}

// AwaitOpen waits until the process is in a group.
func (p *Process) AwaitOpen() error {
	return p.await("to be in the group", openTime+time.Second, func() bool { return p.open })
}

// AwaitAddr waits until the process listens.
func (p *Process) AwaitAddr() (string, error) {
	err := p.await("to listen", patience, func() bool { return p.addr != "" })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr, err
}

// AwaitEvents waits for n events whose text has a part, and returns them.
func (p *Process) AwaitEvents(part string, n int) (found []string, err error) {
	err = p.await(fmt.Sprintf("%d events with %q", n, part), patience, func() bool {
		found = slices.DeleteFunc(slices.Clone(p.events), func(e string) bool { return !strings.Contains(e, part) })
		return len(found) >= n
	})
	return found, err
}

// ask has the process do something, and returns how it is then.
func (p *Process) ask(r Request) (Answer, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	if err := p.child.Send(r); err != nil {
		return Answer{}, fmt.Errorf("told to %s: %w", r.Do, err)
	}
	timer := time.NewTimer(2 * patience)
	defer timer.Stop()
	select {
	case a := <-p.answers:
		if a.Err != "" {
			return a, fmt.Errorf("process %d (node %d), told to %s: %s", p.Spec.Life, p.Spec.ID, r.Do, a.Err)
		}
		return a, nil
	case <-p.ended:
		return Answer{}, fmt.Errorf("process %d (node %d), told to %s: %w: %v; halted: %q", p.Spec.Life, p.Spec.ID, r.Do, errGone, p.exit, p.halted)
	case <-timer.C:
		return Answer{}, fmt.Errorf("process %d (node %d), told to %s: no answer", p.Spec.Life, p.Spec.ID, r.Do)
	}
}

// Send has the process begin to send.
func (p *Process) Send() error { return p.do(Request{Do: DoSend}) }

// Hold stops the sending of the process, and waits until all that it sent is delivered.
func (p *Process) Hold() error { return p.do(Request{Do: DoHold}) }

// Mark begins a measurement of gaps.
func (p *Process) Mark() error { return p.do(Request{Do: DoMark}) }

// Report has the process say that a node failed.
func (p *Process) Report(id squall.NodeID) error { return p.do(Request{Do: DoReport, ID: id}) }

// Block has the next upcall of a subgroup take so long.
func (p *Process) Block(subgroup int, d time.Duration) error {
	return p.do(Request{Do: DoBlock, Subgroup: subgroup, For: d})
}

func (p *Process) do(r Request) error {
	_, err := p.ask(r)
	return err
}

// Status is how the process is.
func (p *Process) Status() (Answer, error) { return p.ask(Request{Do: DoStatus}) }

// Use is what the process holds.
func (p *Process) Use() (Use, error) {
	a, err := p.ask(Request{Do: DoUse})
	return a.Use, err
}

// Leave has the process leave the group, which must work.
func (p *Process) Leave() error {
	p.update(func() { p.left = true })
	if err := p.do(Request{Do: DoLeave, For: patience}); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// Kill ends the process without a word.
func (p *Process) Kill() {
	p.update(func() { p.killed = true })
	p.child.Kill()
	<-p.ended
}

// Stop has the system stop the process where it stands.
func (p *Process) Stop() error { return p.child.Stop() }

// Continue ends Stop.
func (p *Process) Continue() error { return p.child.Continue() }

// ID is the process's node.
func (p *Process) ID() squall.NodeID { return p.Spec.ID }

// View is the last view that the process installed; nil is none.
func (p *Process) View() *Installed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view
}

// live reports whether the process is there, and in the group as far as is known.
func (p *Process) live() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.gone && !p.killed && !p.left && p.halted == ""
}

func (p *Process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// close ends the process however it is.
func (p *Process) close() {
	p.child.Kill()
	<-p.ended
}
