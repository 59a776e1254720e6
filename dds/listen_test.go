package dds_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/invariants"
)

// A listener is told what a reader takes, in the same order, and changes of instances, too.
func TestAListenerHearsWhatAReaderTakes(t *testing.T) {
	t.Parallel()
	all := open(t, 2, nil)
	heard := make(chan string, 100)
	there := topic(t, all[1], dds.QoS{})
	line := func(s *dds.Sample[position]) string {
		return fmt.Sprint(s.Info.Position, s.Info.Valid, s.Info.Writer, s.Value)
	}
	reader(t, there, dds.QoS{Limits: qos.Limits{Samples: 1}}, dds.Listen(func(s *dds.Sample[position], err error) {
		if s.Info.Instance == dds.InstanceNoWriters { // the test has ended, and its participants close one after the other
			return
		}
		if s.Info.Instance != map[bool]dds.InstanceState{true: dds.InstanceAlive, false: dds.InstanceDisposed}[s.Info.Valid] {
			t.Errorf("heard in the state %d: %s", s.Info.Instance, line(s))
		}
		heard <- fmt.Sprint(line(s), err)
	}))
	r := reader(t, there, keepAll)
	w := writer(t, topic(t, all[0], dds.QoS{}), dds.QoS{})
	for i := range int32(5) {
		write(t, w, position{Vehicle: i % 2, N: i})
	}
	if err := w.Dispose(t.Context(), position{Vehicle: 1}); err != nil {
		t.Fatal(err)
	}
	write(t, w, position{Vehicle: 1, N: 9})
	for _, s := range next(t, r, 7) {
		if want, is := fmt.Sprint(line(&s), nil), <-heard; is != want {
			t.Errorf("heard %s, taken %s", is, want)
		}
	}
}

// Two listeners write what they hear: where there is no room they are told so, and the loop goes
// on.
func TestAListenerMayWrite(t *testing.T) {
	t.Parallel()
	all := open(t, 2, nil)
	trips, done := 0, make(chan struct{})
	var writers [2]*dds.Writer[[]byte]
	var topics [2]*dds.Topic[[]byte]
	for i, p := range all {
		for k, name := range []string{"ping", "pong"} {
			tp, err := dds.NewTopic(t.Context(), p, name, dds.Raw(), dds.QoS{})
			if err != nil {
				t.Fatal(err)
			}
			if k == i {
				topics[i] = tp
			}
		}
		var err error
		if writers[i], err = topics[i].Writer(t.Context(), dds.QoS{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range all {
		from, err := dds.NewTopic(t.Context(), p, topics[1-i].Name(), dds.Raw(), dds.QoS{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = from.Reader(t.Context(), keepAll, dds.Listen(func(s *dds.Sample[[]byte], _ error) {
			if i == 0 {
				if trips++; trips == 1000 {
					close(done)
					return
				}
			}
			if err := writers[i].Write(t.Context(), s.Value); err != nil && !errors.Is(err, dds.ErrInCallback) {
				t.Errorf("writing what was heard: %v", err)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := writers[0].Write(t.Context(), []byte("ball")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the ball is lost")
	}
}

// rawTopic returns the ends of a topic of bytes at one participant.
func rawTopic(t *testing.T, at dds.Space) (*dds.Reader[[]byte], *dds.Writer[[]byte]) {
	t.Helper()
	tp, err := dds.NewTopic(t.Context(), at, "raw", dds.Raw(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tp.Reader(t.Context(), keepAll)
	if err != nil {
		t.Fatal(err)
	}
	w, err := tp.Writer(t.Context(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// What is written in place is what a codec writes, and has its place before later samples.
func TestSamplesAreWrittenInPlace(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	r, w := rawTopic(t, all[0])
	first, err := w.Claim(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	dropped, err := w.Claim(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), []byte("second")); err != nil {
		t.Fatal(err)
	}
	copy(first.Bytes, "one")
	if err := errors.Join(dropped.Abort(), first.Commit()); err != nil {
		t.Fatal(err)
	}
	var got []string
	samples := make([]dds.Sample[[]byte], 0, 2)
	for len(got) < 2 {
		s, err := r.Next(t.Context())
		if err == nil {
			samples, err = r.AppendTake(append(samples[:0], s), dds.Query{})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			got = append(got, string(s.Value))
		}
	}
	if !slices.Equal(got, []string{"one", "second"}) {
		t.Errorf("taken: %q", got)
	}
	other := writer(t, topic(t, all[0], dds.QoS{}), dds.QoS{})
	if _, err := other.Claim(t.Context(), 3); !errors.Is(err, qos.ErrRefused) {
		t.Errorf("a sample in place of a codec that is not Raw: %v", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Claim(t.Context(), 3); !errors.Is(err, dds.ErrUnknown) {
		t.Errorf("a sample of a closed writer: %v", err)
	}
}

// Several calls wait at one reader: each sample goes to one of them.
func TestCallsShareTheSamplesOfAReader(t *testing.T) {
	t.Parallel()
	all := open(t, 1, nil)
	tp := topic(t, all[0], dds.QoS{})
	r, w := reader(t, tp, keepAll), writer(t, tp, dds.QoS{})
	taken := make(chan int32)
	for range 4 {
		go func() {
			for {
				s, err := r.Next(t.Context())
				if err != nil {
					taken <- -1
					return
				}
				taken <- s.Value.N
			}
		}()
	}
	var got []int32
	for i := range int32(50) {
		write(t, w, position{N: 2 * i})
		write(t, w, position{N: 2*i + 1})
		got = append(got, <-taken, <-taken)
	}
	slices.Sort(got)
	for i, n := range got {
		if n != int32(i) {
			t.Fatalf("taken: %v", got)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if n := <-taken; n != -1 {
			t.Errorf("a closed reader gives %d", n)
		}
	}
}

// Writing and taking bytes makes no garbage.
func TestRawSamplesAllocateNothing(t *testing.T) {
	if raceEnabled || invariants.Enabled {
		t.Skip("the race detector and checks of invariants make allocations of their own")
	}
	all := open(t, 1, nil)
	r, w := rawTopic(t, all[0])
	body := make([]byte, 100)
	var samples []dds.Sample[[]byte]
	n := testing.AllocsPerRun(100, func() {
		for range 100 {
			if err := w.Write(t.Context(), body); err != nil {
				t.Fatal(err)
			}
		}
		for taken := 0; taken < 100; taken += len(samples) {
			s, err := r.Next(t.Context())
			if err == nil {
				samples, err = r.AppendTake(append(samples[:0], s), dds.Query{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 10 {
		t.Errorf("%v allocations for 100 samples", n)
	}
}

// Samples of best effort writers need no order, if the participants say so: they come in the order
// of their writer and have no position. Their instances end in the order. All other samples are
// ordered.
func TestBestEffortSamplesMayComeWithoutAnOrder(t *testing.T) {
	t.Parallel()
	all := open(t, 2, func(_ int, p *member.Config, _ *squall.Config) { p.Unordered.Name = "loose" })
	loose := dds.QoS{Reliability: qos.Reliability{Kind: qos.BestEffort}}
	here, there := topic(t, all[0], dds.QoS{}), topic(t, all[1], dds.QoS{})
	r := reader(t, there, dds.QoS{Reliability: qos.Reliability{Kind: qos.BestEffort}, History: qos.KeepAll()})
	w := writer(t, here, loose)
	if _, err := w.Matched(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for { // until the other member knows the writer, samples are lost
		if n, err := r.Matched(t.Context(), 1); err != nil || n > 0 {
			break
		}
	}
	for i := range int32(100) {
		write(t, w, position{Vehicle: i % 3, N: i})
	}
	for i, s := range next(t, r, 100) {
		if s.Value.N != int32(i) || s.Info.Position != 0 || s.Info.Writer != w.ID() {
			t.Fatalf("sample %d: %+v", i, s)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range next(t, r, 3) {
		if s.Info.Valid || s.Info.Instance != dds.InstanceDisposed {
			t.Errorf("the end of an instance: %+v", s)
		}
	}
	reliable := writer(t, here, dds.QoS{})
	write(t, reliable, position{N: 7})
	if s := next(t, r, 1)[0]; s.Value.N != 7 || s.Info.Position == 0 {
		t.Errorf("a sample of a reliable writer: %+v", s)
	}
	cfg := member.Config{Subgroup: squall.SubgroupConfig{Name: "a"}, Unordered: squall.SubgroupConfig{Name: "b", Mode: squall.Persistent}}
	if _, err := member.Open(t.Context(), cfg); err == nil {
		t.Error("samples that need no order are on disk")
	}
}
