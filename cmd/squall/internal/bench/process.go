package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall/internal/proc"
)

// MemberCommand is the name of the program of every process of a fleet.
const MemberCommand = "bench-member"

// Member is what one process of a fleet does. Its methods are called in this order, Answer once for
// each request.
type Member interface {
	// Listen returns where the other members reach this one, or nothing if they do not need to.
	Listen(ctx context.Context) (addr string, err error)
	// Connect gets the addresses of all members, by node from 1 up.
	Connect(ctx context.Context, addrs []string) error
	// Answer does what the parent asks. An error goes to the parent, and the process stays.
	Answer(ctx context.Context, r Request) (any, error)
	Close() error
}

// Workload makes members.
type Workload struct {
	Name string
	open func(j *job) (Member, error)
}

// NewWorkload returns the workload whose processes are made by open.
func NewWorkload[S any](name string, open func(p Process[S]) (Member, error)) Workload {
	return Workload{name, func(j *job) (Member, error) {
		p := Process[S]{Node: j.Node, Dir: j.Dir, Host: j.Host}
		if err := json.Unmarshal(j.Spec, &p.Spec); err != nil {
			return nil, err
		}
		return open(p)
	}}
}

// Unconnected is the part of a member that needs no other one.
type Unconnected struct{}

// Listen returns no address.
func (Unconnected) Listen(context.Context) (string, error) { return "", nil }

// Connect does nothing.
func (Unconnected) Connect(context.Context, []string) error { return nil }

// Request is what the parent asks of a member that is connected.
type Request struct {
	Op   string
	From time.Time // the window of the requests that have one
	To   time.Time
	Args json.RawMessage `json:",omitempty"`
}

// Into reads the arguments into v.
func (r Request) Into(v any) error { return json.Unmarshal(r.Args, v) }

// Unknown is the error of a request that the member does not know.
func (r Request) Unknown() error { return fmt.Errorf("no such request: %q", r.Op) }

// job is the configuration of a process.
type job struct {
	Workload string
	Node     int // from 1
	Dir      string
	Host     string
	Spec     json.RawMessage
}

// Process is what a process of a workload knows of itself.
type Process[S any] struct {
	Spec S
	Node int    // from 1
	Dir  string // of this process alone; empty: it has none
	Host string // the address of its host
}

// greeting tells the parent where a member listens, and peers tells the member where all of them
// do.
type (
	greeting struct{ Addr string }
	peers    struct{ Addrs []string }
)

// answer is what a request returned.
type answer struct {
	Value any
	Err   string `json:",omitempty"`
}

// MemberProgram returns what the processes of these workloads are started as. Its command belongs
// to the root command.
func MemberProgram(all ...Workload) proc.Program {
	return proc.Program{Name: MemberCommand, Run: func(ctx context.Context, p *proc.Parent) error {
		err := serve(ctx, p, all)
		if errors.Is(err, proc.ErrParentGone) {
			return nil
		}
		return err
	}}
}

func serve(ctx context.Context, p *proc.Parent, all []Workload) (err error) {
	var j job
	if err := p.Config(&j); err != nil {
		return err
	}
	m, err := open(&j, all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := meet(ctx, p, m); err != nil {
		return err
	}
	for {
		var r Request
		if err := p.Receive(ctx, &r); err != nil {
			return err
		}
		var a answer
		if a.Value, err = answerWhileWell(ctx, m, r); err != nil {
			a = answer{Err: err.Error()}
		}
		if err := p.Send(a); err != nil {
			return err
		}
	}
}

// answerWhileWell has a member answer, until its background work fails if it has a Failing.
func answerWhileWell(ctx context.Context, m Member, r Request) (any, error) {
	if f, ok := m.(interface {
		WhileWell(ctx context.Context) (context.Context, context.CancelCauseFunc)
	}); ok {
		well, cancel := f.WhileWell(ctx)
		defer cancel(nil)
		ctx = well
	}
	return m.Answer(ctx, r)
}

// meet connects a member with the others.
func meet(ctx context.Context, p *proc.Parent, m Member) error {
	addr, err := m.Listen(ctx)
	if err != nil {
		return err
	}
	if err := p.Send(greeting{addr}); err != nil {
		return err
	}
	var known peers
	if err := p.Receive(ctx, &known); err != nil {
		return err
	}
	if err := m.Connect(ctx, known.Addrs); err != nil {
		return err
	}
	return p.Send(greeting{addr})
}

func open(j *job, all []Workload) (Member, error) {
	for _, w := range all {
		if w.Name == j.Workload {
			return w.open(j)
		}
	}
	return nil, fmt.Errorf("no such workload: %q", j.Workload)
}
