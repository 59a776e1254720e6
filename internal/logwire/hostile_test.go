package logwire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/bolt"
)

// liar is a source that answers every request for records with the same frames.
func liar(t *testing.T, answer func(w *wire.Conn)) *Client {
	return &Client{Times: quick, Dial: func(context.Context) (net.Conn, error) {
		theirs, mine := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer theirs.Close()
			on := wire.New(theirs, quick, maxRequestBytes)
			var q request
			if NewServer(ServerConfig{}).greet(on) != nil || on.Hear(&q) != nil {
				return
			}
			stop := make(chan struct{})
			go func() { // pulses must not hold it up
				defer close(stop)
				_, _ = io.Copy(io.Discard, theirs)
			}()
			answer(on)
			theirs.Close()
			<-stop
		}()
		t.Cleanup(func() { <-done })
		return mine, nil
	}}
}

// sends are records, and an end.
func sends(records ...persist.Record) func(*wire.Conn) {
	return func(w *wire.Conn) {
		e := newEncoder(w)
		for i := range records {
			_ = e.add(&records[i])
			if e.flush() != nil { // a frame each: in one, no difference can be negative
				return
			}
		}
		_ = w.SayAs(wire.End, wire.Ending{Count: e.count})
	}
}

// with changes a record.
func with(r persist.Record, change func(*persist.Record)) persist.Record {
	change(&r)
	return r
}

func TestLW1ALyingSourceIsFoundOut(t *testing.T) {
	t.Parallel()
	all := history(20)
	for i := range all {
		all[i].Number = uint64(i)
	}
	raw := func(k wire.Kind, frame ...byte) func(*wire.Conn) {
		return func(w *wire.Conn) { _ = w.Send(k, append(wire.NewFrame(len(frame)), frame...)) }
	}
	for name, c := range map[string]struct {
		answer func(*wire.Conn)
		want   error
	}{
		"versions go back":        {sends(all[5], with(all[6], func(r *persist.Record) { r.Version = all[4].Version })), ErrOutOfOrder},
		"a version comes twice":   {sends(all[5], with(all[6], func(r *persist.Record) { r.Version = all[5].Version })), ErrOutOfOrder},
		"times stand still":       {sends(all[5], with(all[6], func(r *persist.Record) { r.Time = all[5].Time })), ErrOutOfOrder},
		"numbers go back":         {sends(all[5], with(all[6], func(r *persist.Record) { r.Number = 1 })), ErrOutOfOrder},
		"beyond what was asked":   {sends(all[5], all[10]), ErrNotAsked},
		"before what was asked":   {sends(all[1]), ErrNotAsked},
		"no view":                 {sends(with(all[5], func(r *persist.Record) { r.Version.View = 0 })), ErrCorrupt},
		"a time after all times":  {sends(with(all[5], func(r *persist.Record) { r.Time = 1 << 63 })), ErrCorrupt},
		"a wrong count":           {func(w *wire.Conn) { _ = w.SayAs(wire.End, wire.Ending{Count: 3}) }, ErrCorrupt},
		"a frame of another kind": {raw(kindInfo, '{', '}'), ErrCorrupt},
		"more of nothing":         {raw(kindMore, 1, 2, 3), ErrCorrupt},
		"half a record":           {raw(kindRecords, 1, 2, 0x80), ErrCorrupt},
		"an end that is no JSON":  {raw(wire.End, '{'), ErrCorrupt},
		"a wrong checksum": {func(w *wire.Conn) {
			_, _ = w.Write([]byte{4, 0, 0, 0, 0, 0, 0, 0, byte(kindRecords), 1, 2, 3, 4})
		}, wire.ErrChecksum},
		"a record that ends early": {func(w *wire.Conn) {
			e := newEncoder(w)
			r := with(all[5], func(r *persist.Record) { r.Data = make([]byte, 100) })
			e.head(&r)
			_ = e.flush()
			_ = w.SayAs(wire.End, wire.Ending{Count: 1})
		}, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range liar(t, c.answer).Range(t.Context(), prices, all[2].Version, order.Version{View: 2}) {
				if err != nil {
					if !errors.Is(err, c.want) {
						t.Fatalf("%v, not %v", err, c.want)
					}
					return
				}
			}
			t.Fatal("it was believed")
		})
	}
}

func TestLW1ACatchUpTakesNothingOfALiar(t *testing.T) {
	t.Parallel()
	all := history(20)
	l := put(t, newLog(t, bolt.Engine), all[:10]...)
	honest := newHost(t, put(t, newLog(t, bolt.Engine), all...))
	// Everything goes through, but for the times in frames of records, which the liar turns back.
	lies := liar(t, func(w *wire.Conn) {
		i := info{Log: prices.Name, Shard: prices.Shard, Count: 20, First: catchup.Mark{Found: true, Version: all[0].Version}, Last: catchup.Mark{Found: true, Version: all[19].Version}}
		_ = w.SayAs(kindInfo, i)
		_ = w.SayAs(wire.End, wire.Ending{Count: 1})
		_ = w.SayAs(kindMark, catchup.Summed(&all[9]))
		_ = w.SayAs(wire.End, wire.Ending{Count: 2})
	})
	cfg := CatchUpConfig{Cluster: "test", ID: prices, Log: l, Times: quick, Dial: lies.Dial}
	if r, err := CatchUp(t.Context(), cfg); err == nil || r.Records > 0 || !alike(everything(t, l), all[:10]) {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := bring(t, l, order.Version{}, nil, honest); err != nil || !alike(everything(t, l), all) {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestLW2AnAnnouncedLengthTakesNoMemory(t *testing.T) { // alone: it measures what the process allocates
	c := liar(t, func(w *wire.Conn) {
		e := newEncoder(w)
		r := record(3, nil)
		e.head(&r)
		e.frame = binary.AppendUvarint(e.frame[:len(e.frame)-1], maxRecordBytes) // in place of the length 0
		_ = e.flush()
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, err := range c.Range(t.Context(), prices, order.Version{}, order.Version{}) {
		if err == nil {
			t.Fatal("it was believed")
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Fatalf("%d bytes were allocated", took)
	}
	d := decoder{max: maxRecordBytes}
	if d.lacks != 0 {
		t.Fatal(d.lacks)
	}
}

// A member that gets nonsense hangs up and says whose it was.
func TestAHostileReaderIsTurnedAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		send   func(w *wire.Conn)
		reason port.Reason
	}{
		"garbage":          {func(w *wire.Conn) { _, _ = w.Write([]byte(strings.Repeat("GET / ", 3))) }, port.Garbage},
		"a huge frame":     {func(w *wire.Conn) { _, _ = w.Write([]byte{255, 255, 255, 255, 0, 0, 0, 0, 1}) }, port.Garbage},
		"records":          {func(w *wire.Conn) { _ = w.Send(kindRecords, wire.NewFrame(0)) }, port.Garbage},
		"a request in two": {func(w *wire.Conn) { _ = w.Send(wire.Message, append(wire.NewFrame(1), '{')) }, port.Garbage},
		"three requests at once": {func(w *wire.Conn) {
			for range 3 {
				_ = w.Say(request{Do: doTail, Log: prices.Name, Shard: prices.Shard})
			}
		}, port.Garbage},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, put(t, newLog(t, bolt.Engine), history(1)...))
			conn, err := h.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			on := wire.New(conn, quick, maxFrameBytes)
			if _, err := h.client().greet(on); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(io.Discard, conn)
			}()
			c.send(on)
			<-done // the member hung up
			conn.Close()
			h.serving.Wait()
			if r := h.rejections(); len(r) != 1 || r[0].Reason != c.reason || r[0].Kind != port.KindLog {
				t.Fatalf("%v", r)
			}
		})
	}
}

func TestASilentReaderIsGivenUp(t *testing.T) {
	t.Parallel()
	h := newHost(t, newLog(t, bolt.Engine), func(c *ServerConfig) { c.Times.Dial, c.Times.Silence = quick.Pulse, quick.Pulse })
	conn, err := h.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Fatal(err)
	}
	h.serving.Wait()
	if r := h.rejections(); len(r) != 1 || r[0].Reason != port.TimedOut {
		t.Fatalf("%v", r)
	}
}

func TestAnUnknownRequestIsAnswered(t *testing.T) {
	t.Parallel()
	h := newHost(t, newLog(t, bolt.Engine))
	s, err := h.client().dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.ask(request{Do: "erase", Log: prices.Name, Shard: prices.Shard}); err != nil {
		t.Fatal(err)
	}
	if _, _, err = s.frame(new(wire.Ending)); !errors.Is(err, errRefused) {
		t.Error(err)
	}
}

func TestAnotherFormatIsNamedOnBothSides(t *testing.T) {
	t.Parallel()
	h := newHost(t, newLog(t, bolt.Engine))
	conn, err := h.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	on := wire.New(conn, quick, maxFrameBytes)
	var w welcome
	if err := errors.Join(on.Hear(new(challenge)), on.Say(hello{Format: 1}), on.Hear(&w)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := fromRemote(w.Code, w.Text); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	older := &Client{Times: quick, Dial: func(context.Context) (net.Conn, error) {
		theirs, mine := net.Pipe()
		go func() {
			_ = wire.New(theirs, quick, maxRequestBytes).Say(challenge{Format: 1})
			theirs.Close()
		}()
		return mine, nil
	}}
	if _, err := older.List(t.Context()); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// LW4: readers that take nothing hold a place each, and others are told to come again.
func TestLW4SlowReadersAreBounded(t *testing.T) {
	t.Parallel()
	var all []persist.Record
	for n := range 20 {
		all = append(all, record(n, make([]byte, 100_000)))
	}
	h := newHost(t, put(t, newLog(t, bolt.Engine), all...))
	var slow []*session
	for range maxReaders {
		s, err := h.client().dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ask(request{Do: doRange, Log: prices.Name, Shard: prices.Shard}); err != nil {
			t.Fatal(err)
		}
		if k, _, err := s.frame(new(wire.Ending)); k != kindRecords || err != nil { // and no more of them
			t.Fatal(k, err)
		}
		slow = append(slow, s)
	}
	if _, err := h.client().Info(t.Context(), prices); !errors.Is(err, ErrBusy) {
		t.Errorf("not busy: %v", err)
	}
	for r, err := range h.client().Tail(t.Context(), prices, all[19].Version) { // has a place of another kind
		if err != nil || r.Version != all[19].Version {
			t.Error(r, err)
		}
		break
	}
	for _, s := range slow {
		s.close()
	}
	h.serving.Wait()
	if _, err := h.client().Info(t.Context(), prices); err != nil {
		t.Error(err)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 3, 'a', 'b', 'c'}, []byte("more"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := decoder{max: 1 << 20}
		last := persist.Record{}
		for i, frame := range [][]byte{first, second} {
			if d.put([]wire.Kind{kindRecords, kindMore}[i], frame) != nil && d.put(kindRecords, frame) != nil {
				return
			}
			for {
				r, ok, err := d.take()
				if !ok || err != nil {
					break
				}
				if d.count > 1 && (!last.Version.Before(r.Version) || r.Time <= last.Time) {
					t.Fatalf("LW1: %v after %v", r, last)
				}
				last = r
			}
		}
	})
}
