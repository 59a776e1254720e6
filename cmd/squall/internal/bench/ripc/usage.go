package ripc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/squall-go/squall/internal/backoff"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/ripc"
)

// connectAll connects the other clients, each an endpoint of its own, with a call each.
func (s *services) connectAll(ctx context.Context) error {
	for range s.spec.Busy + s.spec.Clients {
		client := &services{spec: s.spec}
		s.others = append(s.others, client)
		if err := client.connect(ctx, ""); err != nil {
			return err
		}
		m, err := client.service.Call(ctx, client.to, client.body)
		if err != nil {
			return err
		}
		m.Release()
	}
	return nil
}

// usage is what this process takes while nothing is sent.
func (m *member) usage(ctx context.Context) (u usage, err error) {
	runtime.GC()
	before, began := proc.CPUTime(), time.Now()
	if err := backoff.Sleep(ctx, m.spec.Duration); err != nil {
		return u, err
	}
	u.CPUPercent = 100 * float64(proc.CPUTime()-before) / float64(time.Since(began))
	u.ClientBytes = (residentBytes() - m.memory) / float64(m.spec.Clients)
	if m.spec.Fabric == "shm" { // the own row is allocated as a whole; of what is resident it may be a part
		u.ClientBytes += float64(ripc.DefaultRingBytes + os.Getpagesize())
	}
	return u, nil
}

// residentBytes is the memory that this process has, shared memory that it looked at included.
func residentBytes() float64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		panic(fmt.Sprintf("statm says %q", b)) // the kernel's own number
	}
	return float64(pages * os.Getpagesize())
}
