package topics

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/mcap"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/dds"
)

// Played is what "squall dds play --json" prints.
type Played struct {
	File    string         `json:"file"`
	Samples int            `json:"samples"`        // that were played, in all rounds
	Changes int            `json:"changes"`        // of instances
	Skipped int            `json:"skipped"`        // that an earlier play had played
	Topics  map[string]int `json:"topics"`         // samples, by the names under which they were played
	Torn    string         `json:"torn,omitempty"` // where the end of the file is missing
}

// The help of this command.
const (
	playHelp = `Play writes the samples of a recording (squall dds record) with their bytes, in their order and at their pace, and ends instances where they ended. Topics that do
not exist are declared as they were. The samples of all writers of a topic that had the same partitions come from one writer.

A member (--join, or none) plays samples with their source times, and --resume goes on where an earlier play of the file ended, without a sample twice,
as long as the group knows of it: ten minutes. A client (--connect) plays them with times of now.

All of the file is checked before anything is played: one that is damaged is refused with the place. Of one whose end is missing, because its recorder was killed,
everything before is played.`
	playExamples = `  squall dds play flight.mcap --join 127.0.0.1:7001 --readers 1
  squall dds play flight.mcap --join 127.0.0.1:7001 --speed 10 --topic positions=replayed --topic alarms
  squall dds play flight.mcap --join 127.0.0.1:7001 --speed 0 --loop 5
  squall dds play flight.mcap --check`
)

func newPlayCommand() *cobra.Command {
	var o options
	y := play{result: Played{Topics: map[string]int{}}}
	var only []string
	var check bool
	cmd := &cobra.Command{
		Use:               "play FILE [flags]",
		Short:             "Play samples of a recording into topics",
		Long:              playHelp,
		Example:           playExamples,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: recordings,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := y.prepare(only, len(o.connect) > 0); err != nil {
				return err
			}
			return y.command(cmd, &o, args[0], check)
		},
	}
	o.declare(cmd)
	f := cmd.Flags()
	f.Float64Var(&y.speed, "speed", 1, "how fast: 1 is as it was, 10 ten times as fast, 0 as fast as possible")
	f.StringArrayVar(&only, "topic", nil, "`NAME[=AS]` of a topic to play, under another name; none: all topics")
	f.IntVar(&y.loop, "loop", 1, "how often")
	f.IntVar(&y.readers, "readers", 0, "wait until so many readers match each writer before playing")
	f.BoolVar(&y.resume, "resume", false, "go on where an earlier play of the file ended")
	f.BoolVar(&check, "check", false, "check the file and print what it has; play nothing")
	show.NoFiles(cmd, "speed", "topic", "loop", "readers")
	return cmd
}

// command plays a file, or checks it only, and prints what came of it.
func (y *play) command(cmd *cobra.Command, o *options, path string, check bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	y.file = file
	if y.content, err = survey(path, file); err != nil {
		return err
	}
	if check {
		return y.content.print(cmd, o.json)
	}
	if y.content.Torn != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s; what comes before is played\n", path, y.content.Torn)
	}
	y.watch = show.NewProgress(show.ProgressConfig{
		To: cmd.ErrOrStderr(), What: "played", Total: int64(y.loop) * int64(y.content.Samples+y.content.Changes), Unit: "samples", After: time.Second,
	})
	err = o.with(cmd.Context(), func(p party) error { return y.run(cmd.Context(), p) })
	y.watch.End()
	y.result.File, y.result.Torn = path, y.content.Torn
	if o.json {
		return errors.Join(err, show.JSON(cmd.OutOrStdout(), y.result))
	}
	skipped := ""
	if y.result.Skipped > 0 {
		skipped = fmt.Sprintf(", after %s of an earlier play", humanize.Comma(int64(y.result.Skipped)))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s of %s played%s\n",
		show.Counted(y.result.Samples, "sample", "samples"), show.Counted(len(y.result.Topics), "topic", "topics"), skipped)
	return err
}

// print prints what a recording has.
func (c *Content) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return show.JSON(cmd.OutOrStdout(), c)
	}
	t := show.Table(cmd.OutOrStdout(), "topic", "type", "keys", "samples", "bytes")
	for _, n := range c.Topics {
		t.AppendRow(table.Row{show.Text(n.Topic), show.Text(n.Type), n.Keyed, humanize.Comma(int64(n.Samples)), humanize.Bytes(uint64(n.Bytes))})
	}
	t.Render()
	end := "it is whole"
	if c.Torn != "" {
		end = c.Torn
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s in %v, from %s: %s\n", show.Counted(c.Samples, "sample", "samples"), c.Last.Sub(c.First).Round(time.Millisecond),
		show.Counted(c.Writers, "writer", "writers"), end)
	return nil
}

// play is what one command plays.
type play struct {
	file    *os.File
	content *Content
	speed   float64
	names   map[string]string // names under which topics are played, by their names in the file; nil: all
	loop    int
	readers int
	resume  bool
	client  bool
	watch   *show.Progress
	result  Played

	voices map[voice]*speaker
	begun  time.Time // of the pace
	from   int64     // time in the file that is played then
}

// speaker is a writer that plays.
type speaker struct {
	writer *dds.Writer[dds.Encoded]
	as     string // the topic
	keyed  bool
	played uint64 // number of the last sample or change, over all rounds
	behind uint64 // what an earlier play had played
}

// prepare looks at the flags.
func (y *play) prepare(only []string, client bool) error {
	y.client = client
	for _, s := range only {
		name, as, renamed := strings.Cut(s, "=")
		if !renamed {
			as = name
		}
		if name == "" || as == "" {
			return fmt.Errorf("--topic %s: use NAME or NAME=AS", s)
		}
		if y.names == nil {
			y.names = map[string]string{}
		}
		y.names[name] = as
	}
	switch {
	case math.IsNaN(y.speed) || y.speed < 0 || math.IsInf(y.speed, 0):
		return fmt.Errorf("--speed %v: must be 0, which is as fast as possible, or more", y.speed)
	case y.loop < 1:
		return fmt.Errorf("--loop %d: must be 1 or more", y.loop)
	case y.resume && client:
		return errors.New("--resume is for members: give it without --connect")
	}
	return nil
}

// run plays.
func (y *play) run(ctx context.Context, p party) error {
	err := y.open(ctx, p)
	for round := 0; round < y.loop && err == nil; round++ {
		y.begun = time.Time{}
		err = y.round(ctx)
	}
	// What was written comes into the order, also if the play is interrupted.
	return errors.Join(err, show.AfterEnd(ctx, closeTime, func(ctx context.Context) (err error) {
		for _, s := range y.voices {
			if s.writer != nil && s.played > s.behind {
				err = errors.Join(err, s.writer.Flush(ctx))
			}
		}
		return err
	}))
}

// topic opens the topic into which one of the recording, with a name, is played: the one that is
// there, or a new one.
func (y *play) topic(ctx context.Context, p party, info dds.TopicInfo, name string) (dds.TopicInfo, *dds.Topic[dds.Encoded], error) {
	for _, there := range p.Topics() {
		if there.Name != info.Name {
			continue
		}
		if there.Type != info.Type || there.Keyed != info.Keyed {
			return info, nil, fmt.Errorf("topic %q is of %s here, and of %s in the recording: --topic %s=AS plays it under another name", info.Name, there.Type, info.Type, name)
		}
		info = there
	}
	t, err := open(ctx, p, info)
	return info, t, err
}

// open opens a writer for each topic and its partitions.
func (y *play) open(ctx context.Context, p party) error {
	for name := range y.names {
		if !slices.ContainsFunc(y.content.Topics, func(c Counted) bool { return c.Topic == name }) {
			return fmt.Errorf("--topic %s: the recording has no such topic", name)
		}
	}
	side := "recording " + y.content.ID
	if !y.resume {
		side += fmt.Sprintf(" %016x", rand.Uint64())
	}
	y.voices = map[voice]*speaker{}
	for v, r := range y.content.voices {
		info := y.content.infos[r.channel]
		s := &speaker{as: info.Name, keyed: info.Keyed}
		if y.names != nil {
			s.as = y.names[info.Name]
		}
		if y.voices[v] = s; s.as == "" {
			continue
		}
		if err := y.openWriter(ctx, p, s, info, r.partitions, dds.Origin{Side: side, GUID: guid(s.as, v.partitions)}); err != nil {
			return err
		}
		y.result.Topics[s.as] = 0
	}
	return nil
}

// openWriter opens the writer of a speaker, and waits for its readers.
func (y *play) openWriter(ctx context.Context, p party, s *speaker, info dds.TopicInfo, partitions []string, o dds.Origin) error {
	recorded := info.Name
	info.Name = s.as
	info, topic, err := y.topic(ctx, p, info, recorded)
	if err != nil {
		return err
	}
	set := dds.QoS{Durability: info.QoS.Durability, Ownership: info.QoS.Ownership, Order: info.QoS.Order, Partitions: partitions, KeepUnregistered: true}
	if y.client {
		s.writer, err = topic.Writer(ctx, set)
	} else if s.writer, err = topic.WriterFor(ctx, set, o); err == nil && y.resume {
		_, err = p.member.Carried(ctx, 0, func(of func(dds.Origin) (last, ended uint64)) { s.behind, _ = of(o) })
	}
	if err == nil {
		_, err = s.writer.Matched(ctx, y.readers)
	}
	return err
}

// guid names what is played by one writer.
func guid(topic, partitions string) (g [16]byte) {
	sum := sha256.Sum256([]byte(topic + "\x00" + partitions))
	copy(g[:], sum[:])
	return g
}

// round plays the file once.
func (y *play) round(ctx context.Context) error {
	file, err := openRecording(y.file)
	for err == nil {
		var r *recorded
		if r, err = file.next(); err == nil {
			err = y.one(ctx, r)
		}
	}
	if err == io.EOF || errors.Is(err, mcap.ErrTorn) {
		return nil
	}
	return err
}

func (y *play) write(ctx context.Context, s *speaker, r *recorded) error {
	v := dds.Encoded{Key: r.key, Data: r.data}
	switch {
	case !y.client:
		return s.writer.Carry(ctx, dds.Carried{Operation: r.operation, Sequence: s.played, Source: r.source}, v)
	case r.operation == dds.OperationDispose:
		return s.writer.Dispose(ctx, v)
	case r.operation == dds.OperationUnregister:
		return s.writer.Unregister(ctx, v)
	}
	return s.writer.Write(ctx, v)
}

// one plays a sample or a change.
func (y *play) one(ctx context.Context, r *recorded) error {
	s := y.voices[voiceOf(r)]
	y.watch.Add()
	if s == nil || s.writer == nil {
		return nil
	}
	s.played++
	if s.played <= s.behind {
		y.result.Skipped++
		return nil
	}
	if err := y.wait(ctx, r.logged); err != nil {
		return err
	}
	if err := y.write(ctx, s, r); err != nil {
		s.played--
		return err
	}
	if r.operation == dds.OperationWrite {
		y.result.Samples++
		y.result.Topics[s.as]++
	} else {
		y.result.Changes++
	}
	return nil
}

// wait waits until it is the time of a sample.
func (y *play) wait(ctx context.Context, logged int64) error {
	if y.begun.IsZero() {
		y.begun, y.from = time.Now(), logged
	}
	if y.speed > 0 {
		at := time.Duration(min(float64(logged-y.from)/y.speed, math.MaxInt64/2))
		if left := at - time.Since(y.begun); left > 0 {
			timer := time.NewTimer(left)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err()
}
