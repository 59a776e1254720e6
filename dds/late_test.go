package dds_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/proc"
)

var (
	lateSamples = flag.Uint64("late-samples", 20_000, "samples of 100 bytes of the history that a late joiner gets")
	lateWithin  = flag.Duration("late-within", 0, "the longest time until a late joiner has the history; 0: it is not judged")
	lateGap     = flag.Duration("late-gap", 0, "the longest gap of another reader meanwhile; 0: it is not judged")
)

var longHistory = dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}

// runLate is a process of a group to which another one comes late: it writes the history, and more
// samples after it, or reads these.
func runLate(ctx context.Context, p *proc.Parent, spec memberSpec, participant *member.Member) error {
	tp, err := dds.NewTopic(ctx, participant, "samples", dds.Raw(), longHistory)
	if err != nil {
		return err
	}
	if spec.Samples > 0 {
		return writeLate(ctx, p, spec.Samples, tp)
	}
	var last, longest atomic.Int64 // in nanoseconds
	_, err = tp.Reader(ctx, dds.QoS{History: qos.KeepAll()}, dds.Listen(func(*dds.Sample[[]byte], error) {
		at := time.Now().UnixNano()
		if since := at - last.Swap(at); since < at { // not the first one
			longest.Store(max(longest.Load(), since))
		}
	}))
	for err == nil {
		if err = p.Send(time.Duration(longest.Swap(0))); err == nil {
			var asked bool
			err = p.Receive(ctx, &asked)
		}
	}
	return err
}

func writeLate(ctx context.Context, p *proc.Parent, samples uint64, tp *dds.Topic[[]byte]) error {
	w, err := tp.Writer(ctx, dds.QoS{Durability: qos.Transient})
	if err != nil {
		return err
	}
	write := func(n uint64) error {
		b := make([]byte, 100)
		binary.LittleEndian.PutUint64(b, n)
		return w.Write(ctx, b)
	}
	n := uint64(0)
	for ; n < samples && err == nil; n++ {
		err = write(n)
	}
	if err = errors.Join(err, w.Flush(ctx)); err != nil {
		return err
	}
	if err = p.Send(time.Duration(0)); err != nil {
		return err
	}
	pause := time.NewTicker(500 * time.Microsecond)
	defer pause.Stop()
	for ; err == nil; n++ {
		<-pause.C
		err = write(n)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// late gets the samples of the topic that a process reads which came late: the next ones that there
// are, at least one, on each call.
type late func(ctx context.Context) ([]dds.Sample[[]byte], error)

// lateReader opens a reader.
func lateReader(ctx context.Context, p dds.Space) (late, error) {
	tp, err := dds.NewTopic(ctx, p, "samples", dds.Raw(), longHistory)
	if err != nil {
		return nil, err
	}
	r, err := tp.Reader(ctx, dds.QoS{Durability: qos.Transient, History: qos.KeepAll()})
	if err != nil {
		return nil, err
	}
	var got []dds.Sample[[]byte]
	return func(ctx context.Context) ([]dds.Sample[[]byte], error) {
		first, err := r.Next(ctx)
		if err != nil {
			return nil, err
		}
		got, err = r.AppendTake(append(got[:0], first), dds.Query{Max: 4096})
		return got, err
	}, nil
}

// lateListener opens a reader that hears the samples.
func lateListener(ctx context.Context, p dds.Space) (late, error) {
	tp, err := dds.NewTopic(ctx, p, "samples", dds.Raw(), longHistory)
	if err != nil {
		return nil, err
	}
	heard := make(chan dds.Sample[[]byte], 1<<12)
	over, end := context.WithCancel(ctx)
	go func() {
		_, err := tp.Reader(over, dds.QoS{Durability: qos.Transient}, dds.Listen(func(s *dds.Sample[[]byte], _ error) {
			select {
			case heard <- *s:
			case <-over.Done():
			}
		}))
		if err != nil {
			end()
		}
	}()
	return func(ctx context.Context) ([]dds.Sample[[]byte], error) {
		select {
		case s := <-heard:
			return []dds.Sample[[]byte]{s}, nil
		case <-over.Done():
			return nil, context.Cause(over)
		}
	}, nil
}

// lateClient opens a reader of a client, of which the process that came late is the relay.
func lateClient(t *testing.T) func(context.Context, dds.Space) (late, error) {
	return func(ctx context.Context, p dds.Space) (late, error) {
		return lateReader(ctx, dial(t, nil, serve(t, p.(*member.Member), member.RelayConfig{}).Addr()))
	}
}

// A process joins while another one writes, and opens a reader: it gets the whole history and what
// follows, each sample once. How long that takes, and the longest time for which a reader that was
// there before got nothing, are logged: -args -late-samples 1000000 -late-within 3s -late-gap 50ms.
func TestALateJoinerGetsALongHistory(t *testing.T) { getLate(t, lateReader) }

// As above, with a listener.
func TestALateListenerHearsALongHistory(t *testing.T) { getLate(t, lateListener) }

// As above, with a client's reader.
func TestALateClientGetsALongHistory(t *testing.T) { getLate(t, lateClient(t)) }

func getLate(t *testing.T, open func(context.Context, dds.Space) (late, error)) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	addr, all := startMembers(t, 2, memberSpec{Members: 2, Late: true, Samples: *lateSamples}, memberSpec{Members: 2, Late: true})
	gap := func(c *proc.Child) (d time.Duration) {
		t.Helper()
		if err := c.Receive(ctx, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	gap(all[1])
	gap(all[0]) // the history is there
	ask := func() time.Duration {
		t.Helper()
		if err := all[1].Send(true); err != nil {
			t.Fatal(err)
		}
		return gap(all[1])
	}
	ask()
	began := time.Now()
	p, err := member.Open(ctx, member.Config{
		Group:    squall.Config{Cluster: "test", ID: 3, Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: 2, Logger: quiet},
		Subgroup: squall.SubgroupConfig{Name: "fleet"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, p) })
	joined := time.Since(began)
	more, err := open(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(0)
	take := func() {
		t.Helper()
		got, err := more(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if n := binary.LittleEndian.Uint64(got[i].Value); n != next {
				t.Fatalf("sample %d comes instead of %d", n, next)
			}
			next++
		}
	}
	for next < *lateSamples {
		take()
	}
	took, longest := time.Since(began), ask()
	for goal := next + 100; next < goal; { // and the tail
		take()
	}
	t.Logf("%d samples of history after %v, a member after %v; the other reader's longest gap was %v", *lateSamples, took, joined, longest)
	if *lateWithin > 0 && took > *lateWithin || *lateGap > 0 && longest > *lateGap {
		t.Errorf("the bounds are %v and %v", *lateWithin, *lateGap)
	}
}
