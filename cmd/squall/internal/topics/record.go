package topics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/wait"
)

// Times of the recorder.
const (
	lookEvery  = 100 * time.Millisecond // for topics that are new
	writeEvery = time.Second            // the longest time for which a sample is in memory only
)

// Recorded is what "squall dds record --json" prints.
type Recorded struct {
	File    string         `json:"file"`
	Samples int            `json:"samples"`
	Changes int            `json:"changes"` // of instances, which ended
	Writers int            `json:"writers"`
	Bytes   uint64         `json:"bytes"` // of the file
	Lost    uint64         `json:"lost"`  // samples that the relay of a client did not have any more
	Topics  map[string]int `json:"topics"`
}

// The help of this command.
const (
	recordHelp = `Record writes the samples of topics to the file FILE, which must not exist, until it is interrupted: their bytes, writers, source times and positions, and when
instances end. "squall dds play" plays it. A topic that does not exist yet is recorded as soon as it does.

The file is in the format MCAP, which tools of robotics open. With --idl they show the fields of samples in XCDR; "squall dds idl" prints the IDL
of a Go type. What was written more than a second before this process is killed can be read.

Recording delays no writer. If the disk is so slow that more than --buffer wait for it, the recording ends there, with an error.`
	recordExamples = `  squall dds record positions alarms flight.mcap --join 127.0.0.1:7001
  squall dds record --all flight.mcap --join 127.0.0.1:7001 --history --for 10m
  squall dds record positions flight.mcap --connect 127.0.0.1:8001 --idl positions=fleet.idl`
)

func recordArgs(all bool, args []string) error {
	switch {
	case all && len(args) != 1:
		return fmt.Errorf("with --all there is one argument, the file: %q", args)
	case !all && len(args) < 2:
		return errors.New("name at least one topic (or pass --all), and the output file")
	}
	return nil
}

func newRecordCommand() *cobra.Command {
	var o options
	var r recording
	var all bool
	var schemas map[string]string
	cmd := &cobra.Command{
		Use:               "record (TOPIC… | --all) FILE [flags]",
		Short:             "Record samples of topics in a file",
		Long:              recordHelp,
		Example:           recordExamples,
		Args:              func(_ *cobra.Command, args []string) error { return recordArgs(all, args) },
		ValidArgsFunction: recordings,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.topics, r.file = args[:len(args)-1], args[len(args)-1]
			if err := r.check(schemas); err != nil {
				return err
			}
			return r.command(cmd, &o)
		},
	}
	o.declare(cmd)
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "record all topics, and topics that come later")
	f.BoolVar(&r.history, "history", false, "begin with the histories of durable topics")
	f.IntVar(&r.count, "count", 0, "end after so many samples; 0: none")
	f.DurationVar(&r.span, "for", 0, "end after this time; 0: none")
	f.Int64Var(&r.buffer, "buffer", 256<<20, "`bytes` that may wait for the disk")
	f.StringToStringVar(&schemas, "idl", nil, "`TOPIC=FILE` with the type of a topic in IDL, which becomes part of the recording")
	show.NoFiles(cmd, "count", "for", "buffer")
	return cmd
}

// check checks the flags, and reads the types of topics.
func (r *recording) check(schemas map[string]string) (err error) {
	if r.count < 0 || r.span < 0 || r.buffer <= 0 {
		return errors.New("--count and --for must not be negative, and --buffer must be more than 0")
	}
	r.idl = map[string][]byte{}
	for topic, path := range schemas {
		if r.idl[topic], err = os.ReadFile(path); err != nil {
			return fmt.Errorf("--idl: %w", err)
		}
	}
	return nil
}

// command records, and prints what came of it.
func (r *recording) command(cmd *cobra.Command, o *options) error {
	r.watch = show.NewProgress(show.ProgressConfig{To: cmd.ErrOrStderr(), What: "recorded", Total: -1, Unit: "samples", After: time.Second, Quiet: true})
	o.events = r.event
	result, err := r.run(cmd.Context(), o)
	r.watch.End()
	if result == nil {
		return err
	}
	if o.json {
		return errors.Join(err, show.JSON(cmd.OutOrStdout(), result))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s of %s recorded in %s, %s\n",
		show.Counted(result.Samples, "sample", "samples"), show.Counted(len(result.Topics), "topic", "topics"), r.file, humanize.Bytes(result.Bytes))
	return err
}

// recordings completes the names of files.
var recordings = cobra.FixedCompletions([]string{"mcap"}, cobra.ShellCompDirectiveFilterFileExt)

// recording is what one command records.
type recording struct {
	file    string
	topics  []string // none: all
	history bool
	count   int
	span    time.Duration
	buffer  int64
	idl     map[string][]byte
	spare   []heard // to be used again
	watch   *show.Progress
	lost    atomic.Uint64
}

// event counts what a client has lost.
func (r *recording) event(e dds.Event) {
	if lost, ok := e.(dds.SampleLost); ok {
		r.lost.Add(max(lost.Count, 1))
	}
}

// heard is a sample that waits for the disk.
type heard struct {
	track *track
	at    int64
	info  dds.Info
	value dds.Encoded
	err   error
}

// intake is what was heard and is not written, in the order of the space.
type intake struct {
	mu    sync.Mutex
	all   []heard
	bytes int64
	limit int64
	full  bool
	wake  wait.Bell
}

// put adds a sample. It is called where the sample has its position, and does not wait.
func (q *intake) put(h heard) {
	q.mu.Lock()
	n := int64(len(h.value.Key) + len(h.value.Data) + 200)
	if q.full = q.full || q.bytes+n > q.limit; !q.full {
		q.bytes += n
		q.all = append(q.all, h)
	}
	q.mu.Unlock()
	q.wake.Ring()
}

// take exchanges what was heard for memory that is empty.
func (q *intake) take(spare []heard) (all []heard, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all, q.all, q.bytes = q.all, spare[:0], 0
	return all, q.full
}

// run records until the context ends, or what was asked for is there. The result is nil if there is
// no file.
func (r *recording) run(ctx context.Context, o *options) (result *Recorded, err error) {
	file, err := os.OpenFile(r.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	t, err := newTape(file, o.cluster, o.space, time.Now())
	if err == nil {
		err = o.with(ctx, func(p party) error { return r.follow(ctx, p, t) })
		if t.samples+t.ended > 0 || err == nil {
			err = errors.Join(err, t.close(r.lost.Load()))
			result = &Recorded{File: r.file, Samples: t.samples, Changes: t.ended, Writers: len(t.writers), Bytes: t.w.Offset(), Lost: r.lost.Load(), Topics: map[string]int{}}
			for name, tr := range t.topics {
				result.Topics[name] = int(tr.samples)
			}
		}
	}
	err = errors.Join(err, file.Sync(), file.Close())
	if result == nil {
		return nil, errors.Join(err, os.Remove(r.file))
	}
	if result.Lost > 0 {
		err = errors.Join(err, fmt.Errorf("%s are missing: the relay did not have them any more; record as a member (--join), or closer to the relay", show.Counted(int(result.Lost), "sample", "samples")))
	}
	return result, err
}

// write writes samples, up to the number that was asked for.
func (r *recording) write(t *tape, all []heard, known func(dds.ID) *dds.QoS) error {
	for i := range all {
		if r.count > 0 && t.samples == r.count {
			return nil
		}
		h := &all[i]
		err := h.err
		if err == nil {
			err = t.add(h.track, h.at, &h.info, h.value, known)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follow writes what is heard.
func (r *recording) follow(ctx context.Context, p party, t *tape) error {
	q := &intake{limit: r.buffer, wake: wait.NewBell()}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var over <-chan struct{}
	if g := p.group(); g != nil {
		over = g.Done()
	}
	if err := r.look(ctx, p, t, q); err != nil {
		return err
	}
	if r.span > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.span)
		defer cancel()
	}
	known := writerQoS(p)
	written := time.Now()
	for {
		var done bool
		var ended error
		select {
		case <-ctx.Done():
			done = true
		case <-over:
			done, ended = true, p.group().Err()
		case <-look.C:
			if err := r.look(ctx, p, t, q); err != nil && ctx.Err() == nil {
				return err
			}
		case <-q.wake:
		}
		if err := r.writeHeard(t, q, known); err != nil {
			return err
		}
		if done || r.count > 0 && t.samples == r.count {
			return ended
		}
		if time.Since(written) >= writeEvery {
			written = time.Now()
			if err := t.w.Flush(); err != nil {
				return err
			}
		}
	}
}

// writeHeard writes what has come.
func (r *recording) writeHeard(t *tape, q *intake, known func(dds.ID) *dds.QoS) error {
	all, full := q.take(r.spare)
	if err := r.write(t, all, known); err != nil {
		return err
	}
	clear(all)
	r.spare = all
	r.watch.Set(int64(t.samples))
	if full {
		return fmt.Errorf("the disk is too slow: more than %s waited for it after position %d; what came before is recorded", humanize.Bytes(uint64(r.buffer)), t.position)
	}
	return nil
}

// look begins to record topics that are new.
func (r *recording) look(ctx context.Context, p party, t *tape, q *intake) error {
	for _, info := range p.Topics() {
		if t.topics[info.Name] != nil || len(r.topics) > 0 && !slices.Contains(r.topics, info.Name) {
			continue
		}
		idl := r.idl[info.Name]
		if idl != nil && !strings.HasPrefix(info.Type, "xcdr:") {
			return fmt.Errorf("--idl %s: the topic is of %s, and IDL is about XCDR", info.Name, info.Type)
		}
		tr, err := t.topic(info, idl)
		if err != nil {
			return err
		}
		topic, err := open(ctx, p, info)
		if err != nil {
			return err
		}
		// A listener loses nothing, whatever is offered to it.
		set := dds.QoS{Reliability: qos.Reliability{Kind: qos.BestEffort}, Ownership: info.QoS.Ownership, Partitions: []string{"*"}}
		if r.history {
			set.Durability = info.QoS.Durability
		}
		_, err = topic.Reader(ctx, set, dds.Listen(func(s *dds.Sample[dds.Encoded], err error) {
			v := dds.Encoded{Key: slices.Clone(s.Value.Key), Data: slices.Clone(s.Value.Data)}
			q.put(heard{tr, time.Now().UnixNano(), s.Info, v, err})
		}))
		if err != nil {
			return err
		}
	}
	return nil
}
