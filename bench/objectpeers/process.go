package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"
)

// process is a program that runs beside this one, and ends with it.
type process struct {
	cmd  *exec.Cmd
	errs bytes.Buffer
}

func start(name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...)}
	p.cmd.Stderr = &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// startNodes starts three processes, of which each has an address for clients and one for the
// others. It returns those for clients.
func startNodes(command func(i int, clients, members []string) []string) (clients []string, end func(), err error) {
	if clients, err = ports(3); err != nil {
		return nil, nil, err
	}
	members, err := ports(3)
	if err != nil {
		return nil, nil, err
	}
	var all []*process
	end = func() {
		for _, p := range all {
			p.end()
		}
	}
	for i := range clients {
		line := command(i, clients, members)
		p, err := start(line[0], line[1:]...)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, p)
	}
	return clients, end, nil
}

// end kills the process: its data is of no use any more.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// ports returns addresses of this host at which nothing listens.
func ports(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// within is how long a system may take to be ready.
const within = 40 * time.Second

// until tries again until it succeeds.
func until(ctx context.Context, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("not ready: %w", errors.Join(ctx.Err(), err))
		}
		rest(ctx, 50*time.Millisecond)
	}
}
