package rtps_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
	"github.com/squall-go/squall/internal/testutil"
)

// live performs a scenario with participants: of one group, or of two spaces with gateways between
// them.
type live struct {
	t            *testing.T
	ctx          context.Context
	participants map[int]*member.Member
	topics       map[int]*dds.Topic[keyedSeq]
	set          dds.QoS
	writers      map[string]*dds.Writer[keyedSeq]
	readers      map[string]*dds.Reader[keyedSeq]
	at           map[string]int
	ended        map[int]chan struct{}
	open         sync.WaitGroup // sets that are left open
	bridged      bool
}

func newLive(t *testing.T) *live {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &live{
		t: t, ctx: ctx, participants: map[int]*member.Member{}, topics: map[int]*dds.Topic[keyedSeq]{}, writers: map[string]*dds.Writer[keyedSeq]{},
		readers: map[string]*dds.Reader[keyedSeq]{}, at: map[string]int{}, ended: map[int]chan struct{}{},
	}
}

// start opens a participant of a group.
func (l *live) start(node int, addr string, first bool) (*member.Member, error) {
	c := squall.Config{
		Cluster: "test", ID: squall.NodeID(node), Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: 2, Logger: quiet, Heartbeat: 100 * time.Millisecond, FailAfter: 2 * time.Second,
	}
	if first {
		c.Listen = addr
	}
	return member.Open(l.ctx, member.Config{Group: c, Subgroup: squall.SubgroupConfig{Name: "space"}})
}

func (l *live) has(node int, p *member.Member) {
	l.participants[node], l.ended[node] = p, make(chan struct{})
}

func (l *live) stop(all ...*member.Member) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var closing sync.WaitGroup
	for _, p := range all {
		closing.Go(func() {
			if err := p.Close(ctx); err != nil && p.Group().Err() == nil {
				l.t.Errorf("closing: %v", err)
			}
		})
	}
	closing.Wait()
	l.open.Wait()
}

func newGrouped(t *testing.T) performer {
	l := newLive(t)
	addr := testutil.FreeAddress(t)
	var all [2]*member.Member
	var errs [2]error
	var opening sync.WaitGroup
	for i := range all {
		opening.Go(func() { all[i], errs[i] = l.start(i+1, addr, i == 0) })
	}
	opening.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		l.has(i+1, p)
	}
	t.Cleanup(func() { l.stop(all[:]...) })
	return l
}

func newBridged(t *testing.T) performer {
	l := newLive(t)
	l.bridged = true
	l.has(1, space(t, nil))
	l.has(2, space(t, nil))
	return l
}

func (l *live) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *live) topic(set dds.QoS) {
	l.t.Helper()
	l.set = set
	for node := range l.participants {
		l.topics[node] = keyed(l.t, l.participants[node], "t", set)
	}
	if l.bridged {
		domain := newDomain()
		for node, p := range l.participants {
			namedGateway(l.t, p, domain, fmt.Sprint("space ", node), rtps.Topic{Name: "t", Direction: rtps.Both, QoS: set})
		}
	}
}

func (l *live) join(node int) {
	l.t.Helper()
	p, err := l.start(node, l.participants[1].Group().Addr(), false)
	l.must(err)
	l.has(node, p)
	l.t.Cleanup(func() { l.stop(p) })
	l.topics[node] = keyed(l.t, p, "t", l.set)
}

func (l *live) end(node int) {
	l.participants[node].Group().Halt(errors.New("the scenario ends it"))
	close(l.ended[node])
	delete(l.participants, node)
}

func (l *live) writer(name string, node int, set dds.QoS) {
	l.t.Helper()
	w, err := l.topics[node].Writer(l.ctx, set)
	l.must(err)
	l.writers[name], l.at[name] = w, node
}

func (l *live) reader(name string, node int, set dds.QoS, where string) {
	l.t.Helper()
	var options []dds.Option[keyedSeq]
	if where != "" {
		o, err := dds.WhereText[keyedSeq](where)
		l.must(err)
		options = append(options, o)
	}
	r, err := l.topics[node].Reader(l.ctx, set, options...)
	l.must(err)
	l.readers[name], l.at[name] = r, node
}

func (l *live) close(name string) {
	l.t.Helper()
	if w := l.writers[name]; w != nil {
		l.must(w.Close(l.ctx))
		return
	}
	l.must(l.readers[name].Close(l.ctx))
}

func (l *live) change(name string, o operation, samples ...keyedSeq) {
	l.t.Helper()
	w, node := l.writers[name], l.at[name]
	switch o {
	case opWrite, opDispose, opUnregister:
		do := map[operation]func(context.Context, keyedSeq) error{opWrite: w.Write, opDispose: w.Dispose, opUnregister: w.Unregister}[o]
		for _, v := range samples {
			l.must(do(l.ctx, v))
		}
		l.must(w.Flush(l.ctx))
		return
	}
	written := make(chan error, 1)
	end := func(err error) error {
		written <- err
		return err
	}
	over := make(chan error, 1)
	l.open.Go(func() {
		over <- l.participants[node].Coherent(l.ctx, func(set *dds.CoherentSet) error {
			for _, v := range samples {
				if err := w.WriteIn(l.ctx, set, v); err != nil {
					return end(err)
				}
			}
			_ = end(nil)
			switch o {
			case opDrop:
				return errGivenUp
			case opBegin: // the process fails within it
				<-l.ended[node]
				return errGivenUp
			}
			return nil
		})
	})
	l.must(<-written)
	if o == opBegin {
		l.must(w.Flush(l.ctx))
		return
	}
	if err := <-over; err != nil && (o != opDrop || !errors.Is(err, errGivenUp)) {
		l.t.Fatal(err)
	}
	l.must(w.Flush(l.ctx))
}

func (l *live) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.ctx.Done():
	}
}

func (l *live) matched(name string, n int) {
	l.t.Helper()
	var e interface {
		Matched(context.Context, int) (int, error)
	} = l.readers[name]
	if w := l.writers[name]; w != nil {
		e = w
	}
	got, err := e.Matched(l.ctx, n)
	l.must(err)
	if got != n {
		l.t.Fatalf("%s matches %d", name, got)
	}
}

func (l *live) refused(writer, reader string) []qos.Verdict {
	l.t.Helper()
	l.settle()
	v, err := l.participants[l.at[writer]].Explain(l.writers[writer].ID(), l.readers[reader].ID())
	l.must(err)
	return v
}

// settle waits until all members of a group have applied the same records.
func (l *live) settle() {
	l.t.Helper()
	for l.ctx.Err() == nil {
		least, most := ^uint64(0), uint64(0)
		for _, p := range l.participants {
			least, most = min(least, p.Position()), max(most, p.Position())
		}
		if least == most {
			return
		}
		l.wait(time.Millisecond)
	}
	l.t.Fatal("the members do not come to one position")
}

func (l *live) take(name string, n int) (got []string) {
	l.t.Helper()
	r := l.readers[name]
	if !l.bridged {
		l.settle()
	}
	add := func(s *dds.Sample[keyedSeq]) {
		got = append(got, sampleText(s.Value.Keyval, s.Value.Seq, s.Info.Valid, s.Info.Instance))
	}
	for {
		all, err := r.Take(dds.Query{})
		l.must(err)
		for i := range all {
			add(&all[i])
		}
		if len(got) >= n {
			return got
		}
		ctx, cancel := context.WithTimeout(l.ctx, 15*time.Second)
		s, err := r.Next(ctx)
		cancel()
		if err != nil {
			return append(got, err.Error())
		}
		add(&s)
	}
}
