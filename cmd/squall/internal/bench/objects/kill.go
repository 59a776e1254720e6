package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/backoff"
)

// measureKills kills one member of each of some groups, and returns the median of the longest times without a reply.
func (s spec) measureKills(ctx context.Context, kills int) (r run, err error) {
	var gaps bench.Values
	for range kills {
		once, err := s.measureKill(ctx)
		if err != nil {
			return r, err
		}
		gaps = append(gaps, once.Gap)
		r.Wrong += once.Wrong
		r.Rate = once.Rate
	}
	r.Gap = gaps.Median()
	return r, nil
}

// measureKill kills a member in the middle of the window.
func (s spec) measureKill(ctx context.Context) (r run, err error) {
	f, err := s.start(ctx)
	if err != nil {
		return r, err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	if err := s.dial(f.Fleet); err != nil {
		return r, err
	}
	from := time.Now().Add(s.Warmup)
	to := from.Add(s.Duration)
	killed := make(chan error, 1)
	go func() {
		err := backoff.Sleep(ctx, time.Until(from.Add(s.Duration/2)))
		f.Kill(f.Children()[nodes-1])
		killed <- err
	}()
	clients := f.Children()[nodes:]
	samples, err := bench.AskSome[sample](f.Fleet, clients, bench.Request{Op: opMeasure, From: from, To: to}, time.Until(to)+bench.SettleWithin)
	if err = errors.Join(err, <-killed); err != nil {
		return r, err
	}
	for _, x := range samples {
		r.Gap = max(r.Gap, float64(x.Gap)/float64(time.Millisecond))
		r.Rate += x.Done / x.Elapsed.Seconds()
		r.Wrong += x.Wrong
	}
	_, err = bench.AskSome[any](f.Fleet, clients, bench.Request{Op: opHangUp}, bench.AnswerWithin)
	return r, err
}

// deposit has each caller deposit one cent at a time in an account of its own, so that every reply says how often its commands were executed.
func (c *clients) deposit(ctx context.Context, r bench.Request) (any, error) {
	type account struct {
		name  string
		sum   int64
		wrong float64
		last  time.Time
		gap   time.Duration
	}
	all := make([]account, c.callers())
	l := begin(len(all), func(i int) (int, error) {
		a := &all[i]
		if a.name == "" {
			a.name = fmt.Sprintf("account %d of %d", i, c.Node)
		}
		sum, err := countCBOR.Call(ctx, c.dialled[i%len(c.dialled)].Object(storeName), amount{a.name, 1})
		if err != nil {
			return 0, err
		}
		if a.sum++; sum != a.sum {
			a.wrong++
			a.sum = sum
		}
		now := time.Now()
		if !a.last.IsZero() && a.last.After(r.From) {
			a.gap = max(a.gap, now.Sub(a.last))
		}
		a.last = now
		return 1, nil
	})
	s, err := observe(ctx, r.From, r.To, c.profile(), l.done)
	err = errors.Join(err, l.end())
	for _, a := range all {
		s.Gap = max(s.Gap, a.gap)
		s.Wrong += a.wrong
	}
	return s, err
}
