package topics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/mcap"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/ripc"
)

// ear hears what readers of a program get, of several topics, in the order of the space.
type ear struct {
	mu  sync.Mutex
	all []string
	at  []uint64 // positions
	t   *testing.T
}

func (e *ear) listen(p *member.Member, name, kind string, keyed bool, set dds.QoS) {
	e.t.Helper()
	tp, err := dds.NewTopic(e.t.Context(), p, name, dds.EncodedAs(kind, keyed), set)
	fatal(e.t, err)
	_, err = tp.Reader(e.t.Context(), dds.QoS{Durability: set.Durability, Partitions: []string{"*"}, Reliability: qos.Reliability{Kind: qos.BestEffort}}, dds.Listen(func(s *dds.Sample[dds.Encoded], err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if err != nil {
			e.t.Error(err)
		}
		if s.Info.Instance == dds.InstanceNoWriters {
			s.Info.Source = 0 // the time of the space, which is not that of a writer
		}
		e.all = append(e.all, fmt.Sprintf("%s valid=%v state=%d source=%d key=%x data=%x", name, s.Info.Valid, s.Info.Instance, s.Info.Source, s.Value.Key, s.Value.Data))
		e.at = append(e.at, s.Info.Position)
	}))
	fatal(e.t, err)
}

// heard waits for so many samples and changes, and returns all.
func (e *ear) heard(n int) []string {
	e.t.Helper()
	return e.those(n, "")
}

// valid waits for so many samples, and returns all.
func (e *ear) valid(n int) []string {
	e.t.Helper()
	return e.those(n, "valid=true")
}

func (e *ear) those(n int, with string) []string {
	e.t.Helper()
	for end := time.Now().Add(5 * time.Second); ; {
		e.mu.Lock()
		all := having(e.all, with)
		e.mu.Unlock()
		if len(all) >= n {
			return all
		}
		if time.Now().After(end) {
			kinds := map[string]int{}
			for _, s := range all {
				kinds[s[:strings.Index(s, "source")]]++
			}
			e.t.Fatalf("%d of %d samples came: %v", len(all), n, kinds)
		}
		time.Sleep(time.Millisecond)
	}
}

// having returns the texts with a part.
func having(all []string, part string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.Contains(s, part) })
}

var kept = dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}

// recordable is a program with three topics and the samples of four writers in them: n samples, and
// ends of instances.
func recordable(t *testing.T, p *member.Member, n int) (play func()) {
	t.Helper()
	ctx := t.Context()
	notes, err := dds.NewTopic(ctx, p, "notes", dds.CBOR[note](), dds.QoS{})
	fatal(t, err)
	codec, err := dds.XCDR[position](cdr.XCDR2)
	fatal(t, err)
	positions, err := dds.NewTopic(ctx, p, "positions", codec, kept)
	fatal(t, err)
	raw, err := dds.NewTopic(ctx, p, "raw", dds.Raw(), dds.QoS{})
	fatal(t, err)
	w, err := notes.Writer(ctx, dds.QoS{})
	fatal(t, err)
	north, err := positions.Writer(ctx, dds.QoS{Durability: qos.Transient, Partitions: []string{"north"}, KeepUnregistered: true})
	fatal(t, err)
	south, err := positions.Writer(ctx, dds.QoS{Durability: qos.Transient, Partitions: []string{"south", "pole"}})
	fatal(t, err)
	b, err := raw.Writer(ctx, dds.QoS{Reliability: qos.Reliability{Kind: qos.BestEffort}})
	fatal(t, err)
	for _, w := range []interface {
		Matched(context.Context, int) (int, error)
	}{w, north, south, b} {
		_, err := w.Matched(ctx, 1)
		fatal(t, err)
	}
	return func() {
		for i := range n {
			switch i % 4 {
			case 0:
				fatal(t, w.Write(ctx, note{fmt.Sprint("note ", i)}))
			case 1:
				fatal(t, north.Write(ctx, position{int32(i % 7), float64(i)}))
			case 2:
				fatal(t, south.Write(ctx, position{int32(100 + i%5), float64(i)}))
			case 3:
				fatal(t, b.Write(ctx, bytes.Repeat([]byte{byte(i)}, i%300)))
			}
			switch i % 50 {
			case 10:
				fatal(t, north.Unregister(ctx, position{Vehicle: int32((i - 1) % 7)}))
			case 20:
				fatal(t, south.Dispose(ctx, position{Vehicle: int32(100 + (i-2)%5)}))
			}
		}
		fatal(t, errors.Join(w.Flush(ctx), north.Flush(ctx), south.Flush(ctx), b.Flush(ctx)))
	}
}

// record runs the command beside f, which it is to record, until it has n samples.
func record(t *testing.T, p *member.Member, n int, f func() func(), args ...string) Recorded {
	t.Helper()
	var wg sync.WaitGroup
	var out string
	wg.Go(func() {
		var err error
		if out, err = run(t, "", append([]string{"record", "--json", fmt.Sprint("--count=", n)}, args...)...); err != nil {
			t.Error(err)
		}
	})
	f()()
	wg.Wait()
	var r Recorded
	fatal(t, json.Unmarshal([]byte(out), &r))
	return r
}

// ofGroup has the ears of a program of another group, which is to get what a recording has.
func ofGroup(t *testing.T) (e *ear, join string) {
	t.Helper()
	p, join := program(t)
	e = &ear{t: t}
	e.listen(p, "notes", "cbor:note", false, dds.QoS{})
	e.listen(p, "positions", "xcdr:position", true, kept)
	e.listen(p, "raw", "raw", false, dds.QoS{})
	return e, join
}

// recorded4 makes a recording, and returns what it is of.
func recorded4(t *testing.T, n int) (file string, want []string) {
	t.Helper()
	p, join := program(t)
	e := &ear{t: t}
	file = filepath.Join(t.TempDir(), "flight.mcap")
	r := record(t, p, n, func() func() {
		f := recordable(t, p, n)
		e.listen(p, "notes", "cbor:note", false, dds.QoS{})
		e.listen(p, "positions", "xcdr:position", true, kept)
		e.listen(p, "raw", "raw", false, dds.QoS{})
		return f
	}, "--all", file, join)
	want = e.heard(r.Samples + r.Changes)
	if at := e.at; r.Samples != n || r.Writers != 4 || r.Lost != 0 || !slices.IsSorted(at) {
		t.Fatalf("recorded: %+v; positions are sorted: %v", r, slices.IsSorted(at))
	}
	for topic, n4 := range r.Topics {
		if n4 != map[string]int{"notes": n / 4, "positions": n / 2, "raw": n / 4}[topic] {
			t.Errorf("%d samples of %s", n4, topic)
		}
	}
	return file, want[:r.Samples+r.Changes]
}

// What is played is what was recorded: the bytes, source times and instances of all topics, in one
// order.
func TestARecordingIsPlayedIntoAnotherGroup(t *testing.T) {
	file, want := recorded4(t, 2000)
	e, join := ofGroup(t)
	out, err := run(t, "", "play", file, join, "--speed=0", "--readers=1", "--json")
	fatal(t, err)
	var y Played
	fatal(t, json.Unmarshal([]byte(out), &y))
	if y.Samples != 2000 || y.Samples+y.Changes != len(want) || y.Topics["raw"] != 500 || y.Torn != "" {
		t.Errorf("played: %s", out)
	}
	for i, is := range e.heard(len(want))[:len(want)] {
		if is != want[i] {
			t.Fatalf("sample %d is\n%s, and not\n%s", i, is, want[i])
		}
	}

	// What was played is recorded again, from the history of the other group. The writers are gone by
	// then, and their partitions with them.
	again := filepath.Join(t.TempDir(), "again.mcap")
	out, err = run(t, "", "record", "positions", again, join, "--history", "--count=1000", "--json")
	fatal(t, err)
	var r Recorded
	fatal(t, json.Unmarshal([]byte(out), &r))
	samples := func(file, topic string) (all []string) {
		f, err := os.Open(file)
		fatal(t, err)
		defer f.Close()
		p, err := openRecording(f)
		fatal(t, err)
		for {
			s, err := p.next()
			if err == io.EOF {
				return all
			}
			fatal(t, err)
			if s.operation == dds.OperationWrite && p.topics[s.channel].Name == topic {
				all = append(all, fmt.Sprintf("%d %x %x", s.source, s.key, s.data))
				if file != again && !slices.Equal(s.partitions, []string{"north"}) && !slices.Equal(s.partitions, []string{"south", "pole"}) {
					t.Errorf("a sample of a writer with the partitions %q", s.partitions)
				}
			}
		}
	}
	if first, second := samples(file, "positions"), samples(again, "positions"); !slices.Equal(first, second) || len(first) != 1000 {
		t.Errorf("%d samples were recorded at first, and then %d, which differ", len(first), len(second))
	}
}

func TestAPlayIsResumedBehindItsLastSample(t *testing.T) {
	file, want := recorded4(t, 400)
	// A part of the file, as a recorder that is killed leaves it, and as an interrupted play reads it.
	part := filepath.Join(t.TempDir(), "part.mcap")
	fatal(t, os.WriteFile(part, cutInChunks(t, file), 0o600))
	e, join := ofGroup(t)
	played := func(file string, args ...string) (y Played) {
		t.Helper()
		out, err := run(t, "", append([]string{"play", file, join, "--speed=0", "--json"}, args...)...)
		fatal(t, err)
		fatal(t, json.Unmarshal([]byte(out), &y))
		return y
	}
	first := played(part, "--resume")
	if n := first.Samples + first.Changes; n == 0 || n >= len(want) || !strings.Contains(first.Torn, "byte") {
		t.Fatalf("of a part: %+v", first)
	}
	n := first.Samples + first.Changes
	e.heard(n)
	rest := played(file, "--resume")
	if rest.Skipped != n || rest.Samples+rest.Changes != len(want)-n {
		t.Fatalf("first %+v, then %+v, of %d", first, rest, len(want))
	}
	if third := played(file, "--resume"); third.Samples+third.Changes != 0 || third.Skipped != len(want) {
		t.Errorf("a third time: %+v", third)
	}
	if fresh := played(file); fresh.Skipped != 0 || fresh.Samples != 400 {
		t.Errorf("without --resume: %+v", fresh)
	}
	samples := having(want, "valid=true")
	if got := e.valid(800); !slices.Equal(got, append(samples, samples...)) {
		t.Errorf("%d samples came, which are not those of the file, twice", len(got))
	}
}

// cutInChunks writes the samples of a recording in many chunks and returns about half of the file,
// which ends within a chunk.
func cutInChunks(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	fatal(t, err)
	defer f.Close()
	at, err := f.Stat()
	fatal(t, err)
	r, err := mcap.NewReader(f, at.Size())
	fatal(t, err)
	var b bytes.Buffer
	w, err := mcap.NewWriter(&b, mcap.Header{})
	fatal(t, err)
	for n := 0; ; n++ {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		fatal(t, err)
		switch m := rec.(type) {
		case *mcap.Metadata:
			err = w.Metadata(*m)
		case *mcap.Schema:
			_, err = w.Schema(*m)
		case *mcap.Channel:
			_, err = w.Channel(*m)
		case *mcap.Message:
			if err = w.Message(m); n%20 == 0 {
				err = errors.Join(err, w.Flush())
			}
		}
		fatal(t, err)
	}
	fatal(t, w.Close())
	return b.Bytes()[:b.Len()/2]
}

// begin begins to execute a command, and returns a function that interrupts it and returns its
// output and its error.
func begin(t *testing.T, args ...string) (interrupt func() (string, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		cmd := NewCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		ended <- cmd.ExecuteContext(ctx)
	}()
	t.Cleanup(cancel)
	return func() (string, error) {
		cancel()
		err := <-ended
		return out.String(), err
	}
}

func TestARecordingIsWholeAfterAnInterrupt(t *testing.T) {
	p, join := program(t)
	file := filepath.Join(t.TempDir(), "flight.mcap")
	notes, err := dds.NewTopic(t.Context(), p, "notes", dds.CBOR[note](), dds.QoS{})
	fatal(t, err)
	w, err := notes.Writer(t.Context(), dds.QoS{})
	fatal(t, err)
	interrupt := begin(t, "record", "notes", file, join)
	_, err = w.Matched(t.Context(), 1)
	fatal(t, err)
	fatal(t, w.Write(t.Context(), note{"one"}))
	for b := []byte{}; !bytes.Contains(b, []byte("one")); { // it is on the disk within a second
		b, err = os.ReadFile(file)
		fatal(t, err)
		time.Sleep(time.Millisecond)
	}
	fatal(t, w.Write(t.Context(), note{"two"}))
	fatal(t, w.Flush(t.Context()))
	for b := []byte{}; !bytes.Contains(b, []byte("two")); {
		b, err = os.ReadFile(file)
		fatal(t, err)
		time.Sleep(time.Millisecond)
	}
	if out, err := interrupt(); err != nil || !strings.HasPrefix(out, "2 samples of 1 topic recorded in "+file) {
		t.Fatalf("%v: %q", err, out)
	}
	printed, err := run(t, "", "play", file, "--check")
	if err != nil || !strings.Contains(printed, "2 samples") || !strings.Contains(printed, "it is whole") {
		t.Errorf("%v: %s", err, printed)
	}
	if _, err = run(t, "", "record", "notes", file, join); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file that exists: %v", err)
	}
}

func TestFaultsOfRecordingsAreNamed(t *testing.T) {
	file, _ := recorded4(t, 40)
	b, err := os.ReadFile(file)
	fatal(t, err)
	e, join := ofGroup(t)
	other := filepath.Join(t.TempDir(), "other.mcap")
	play := func(b []byte, args ...string) error {
		t.Helper()
		fatal(t, os.WriteFile(other, b, 0o600))
		_, err := run(t, "", append([]string{"play", other, join, "--speed=0"}, args...)...)
		return err
	}
	damaged := bytes.Clone(b)
	damaged[len(b)/2] ^= 4
	if err := play(damaged); !errors.Is(err, mcap.ErrDamaged) || !strings.Contains(err.Error(), other) || !strings.Contains(err.Error(), "byte ") {
		t.Errorf("damaged: %v", err)
	}
	if n := len(e.heard(0)); n != 0 {
		t.Errorf("%d samples of a damaged file were played", n)
	}
	if err := play([]byte("something else")); !errors.Is(err, mcap.ErrUnsupported) {
		t.Errorf("another file: %v", err)
	}
	if err := play(b[:20]); !errors.Is(err, mcap.ErrTorn) && !strings.Contains(err.Error(), "nothing was recorded") {
		t.Errorf("a beginning: %v", err)
	}
	var foreign bytes.Buffer
	w, err := mcap.NewWriter(&foreign, mcap.Header{})
	fatal(t, err)
	_, err = w.Channel(mcap.Channel{Topic: "x"})
	fatal(t, errors.Join(err, w.Close()))
	if err := play(foreign.Bytes()); !errors.Is(err, errRecording) {
		t.Errorf("an MCAP file of another program: %v", err)
	}
	foreign.Reset()
	w, err = mcap.NewWriter(&foreign, mcap.Header{})
	fatal(t, errors.Join(err, w.Metadata(mcap.Metadata{Name: recordingName, Values: map[string]string{"version": "2"}}), w.Close()))
	if err := play(foreign.Bytes()); !errors.Is(err, errRecording) || !strings.Contains(err.Error(), `"2"`) {
		t.Errorf("a later version: %v", err)
	}
	for _, args := range [][]string{{"--speed=-1"}, {"--speed=NaN"}, {"--loop=0"}, {"--topic=="}, {"--topic=nothing"}, {"--topic=notes=raw"}, {"--resume", "--connect=127.0.0.1:1"}} {
		if err := play(b, args...); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	for _, args := range [][]string{{"--all", "a", "b"}, {"a"}, {"a", "b", "--count=-1"}, {"a", "b", "--buffer=0"}, {"a", "b", "--idl=a=/nothing"}, {"raw", filepath.Join(t.TempDir(), "x"), join, "--idl=raw=" + other}} {
		if _, err := run(t, "", append([]string{"record"}, args...)...); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestTopicsArePlayedUnderOtherNamesAndSeveralTimes(t *testing.T) {
	file, _ := recorded4(t, 40)
	p, join := program(t)
	e := &ear{t: t}
	e.listen(p, "copies", "cbor:note", false, dds.QoS{})
	out, err := run(t, "", "play", file, join, "--speed=0", "--topic=notes=copies", "--loop=3")
	if err != nil || !strings.HasPrefix(out, "30 samples of 1 topic played") {
		t.Fatalf("%v: %q", err, out)
	}
	all := e.valid(30)
	for i := range 10 {
		data := func(s string) string { return s[strings.Index(s, "data="):] }
		if data(all[i]) != data(all[i+10]) || data(all[i]) != data(all[i+20]) || !strings.HasPrefix(all[i], "copies") {
			t.Errorf("sample %d: %s, %s, %s", i, all[i], all[i+10], all[i+20])
		}
	}
	for _, topic := range p.Topics() {
		if topic.Name != "copies" {
			t.Errorf("topic %q was declared, too", topic.Name)
		}
	}
}

func TestSamplesArePlayedAtTheirPace(t *testing.T) {
	for speed, want := range map[float64]time.Duration{1: 10 * time.Second, 10: time.Second, 0.5: 20 * time.Second, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			y := play{speed: speed}
			start := time.Now()
			for at := int64(5); at <= 10; at++ {
				fatal(t, y.wait(t.Context(), 1e9*(2*at)))
			}
			if is := time.Since(start); is != want {
				t.Errorf("speed %v takes %v, not %v", speed, is, want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := y.wait(ctx, 1e12); !errors.Is(err, context.Canceled) {
				t.Errorf("interrupted: %v", err)
			}
		})
	}
}

// A play that is interrupted says how far it came, and goes on from there.
func TestAnInterruptedPlayGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flight.mcap")
	file, err := os.Create(path)
	fatal(t, err)
	tp, err := newTape(file, "dds", "space", time.Now())
	fatal(t, err)
	tr, err := tp.topic(dds.TopicInfo{Name: "raw", Type: "raw"}, nil)
	fatal(t, err)
	for hour := range int64(2) { // one sample an hour
		info := dds.Info{Position: uint64(hour + 1), Source: hour, Valid: true, Writer: dds.ID{Node: 1, Number: 1}}
		fatal(t, tp.add(tr, hour*int64(time.Hour), &info, dds.Encoded{Data: fmt.Append(nil, hour)}, func(dds.ID) *dds.QoS { return nil }))
	}
	fatal(t, errors.Join(tp.close(0), file.Close()))
	p, join := program(t)
	e := &ear{t: t}
	e.listen(p, "raw", "raw", false, dds.QoS{})
	interrupt := begin(t, "play", path, join, "--resume")
	e.heard(1)
	if out, err := interrupt(); !errors.Is(err, context.Canceled) || out != "1 sample of 1 topic played\n" {
		t.Fatalf("%v: %q", err, out)
	}
	// It does not wait for the hour before the sample that is the first one now.
	rest, err := run(t, "", "play", path, join, "--resume")
	if err != nil || rest != "1 sample of 1 topic played, after 1 of an earlier play\n" {
		t.Fatalf("%v: %q", err, rest)
	}
	samples := e.valid(2)
	if len(samples) != 2 || !strings.HasSuffix(samples[0], "data=30") || !strings.HasSuffix(samples[1], "data=31") {
		t.Errorf("%q", samples)
	}
}

// A client records and plays through a member that serves clients.
func TestAClientRecordsAndPlays(t *testing.T) {
	p, _ := program(t)
	relay, err := member.Serve(t.Context(), member.RelayConfig{Member: p, Endpoint: ripc.Config{Listen: "127.0.0.1:0"}})
	fatal(t, err)
	t.Cleanup(func() { fatal(t, relay.Close()) })
	connect := "--connect=" + relay.Addr()
	file := filepath.Join(t.TempDir(), "flight.mcap")
	r := record(t, p, 200, func() func() { return recordable(t, p, 200) }, "notes", "positions", "raw", file, connect)
	if r.Samples != 200 || r.Lost != 0 || len(r.Topics) != 3 {
		t.Errorf("recorded: %+v", r)
	}
	e := &ear{t: t}
	e.listen(p, "copies", "xcdr:position", true, kept)
	out, err := run(t, "", "play", file, connect, "--speed=0", "--topic=positions=copies", "--readers=1")
	if err != nil || !strings.HasPrefix(out, "100 samples of 1 topic played") {
		t.Fatalf("%v: %q", err, out)
	}
	ends := 0
	e.valid(100)
	for end := time.Now().Add(5 * time.Second); ends == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		ends = len(having(e.heard(100), "valid=false"))
	}
	if ends == 0 {
		t.Error("no instance has ended")
	}
}

// A persistent topic is recorded and played by members that have its log.
func TestAPersistentTopicIsRecordedAndPlayed(t *testing.T) {
	p, err := member.Open(t.Context(), member.Config{
		Group: squall.Config{
			Cluster: "dds", ID: 1, Dir: t.TempDir(), Listen: "127.0.0.1:0", InitialMembers: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		},
		Subgroup: squall.SubgroupConfig{Name: "space", Mode: squall.Persistent},
	})
	fatal(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		fatal(t, p.Close(ctx))
	})
	durable := dds.QoS{Durability: qos.Persistent, Service: qos.DurabilityService{History: qos.KeepAll()}}
	log, err := dds.NewTopic(t.Context(), p, "log", dds.CBOR[note](), durable)
	fatal(t, err)
	w, err := log.Writer(t.Context(), dds.QoS{Durability: qos.Persistent})
	fatal(t, err)
	for _, text := range []string{"one", "two", "three"} {
		fatal(t, w.Write(t.Context(), note{text}))
	}
	join, file := "--join="+p.Group().Addr(), filepath.Join(t.TempDir(), "log.mcap")
	out, err := run(t, "", "record", "log", file, join, "--dir="+t.TempDir(), "--history", "--count=3")
	if err != nil || !strings.HasPrefix(out, "3 samples") {
		t.Fatalf("%v: %q", err, out)
	}
	out, err = run(t, "", "play", file, join, "--dir="+t.TempDir(), "--topic=log=copies", "--speed=0")
	if err != nil || !strings.HasPrefix(out, "3 samples") {
		t.Fatalf("%v: %q", err, out)
	}
	copies, err := dds.NewTopic(t.Context(), p, "copies", dds.CBOR[note](), durable)
	fatal(t, err)
	r, err := copies.Reader(t.Context(), dds.QoS{Durability: qos.Persistent, History: qos.KeepAll()})
	fatal(t, err)
	for _, text := range []string{"one", "two", "three"} {
		if s, err := r.Next(t.Context()); err != nil || s.Value.Text != text {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// A recorder holds up no writer: it ends when too much waits for its disk.
func TestARecordingEndsWhenTheDiskIsTooSlow(t *testing.T) {
	q := &intake{limit: 1000, wake: make(chan struct{}, 1)}
	for range 10 {
		q.put(heard{value: dds.Encoded{Data: make([]byte, 100)}})
	}
	if all, full := q.take(nil); len(all) != 3 || !full {
		t.Errorf("%d samples wait, full: %v", len(all), full)
	}
	p, join := program(t)
	notes, err := dds.NewTopic(t.Context(), p, "notes", dds.CBOR[note](), kept)
	fatal(t, err)
	w, err := notes.Writer(t.Context(), dds.QoS{Durability: qos.Transient})
	fatal(t, err)
	fatal(t, errors.Join(w.Write(t.Context(), note{"one"}), w.Write(t.Context(), note{"two"})))
	file := filepath.Join(t.TempDir(), "flight.mcap")
	out, err := run(t, "", "record", "notes", file, join, "--history", "--buffer=250")
	if err == nil || !strings.Contains(err.Error(), "too slow") || !strings.HasPrefix(out, "1 sample of") {
		t.Fatalf("%v: %q", err, out)
	}
	if out, err = run(t, "", "play", file, "--check", "--json"); err != nil || !strings.Contains(out, `"samples": 1,`) {
		t.Errorf("%v: %s", err, out)
	}
}
