package topics

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
)

// Sample is a sample in what "squall dds sub --json" prints.
type Sample struct {
	Topic    string    `json:"topic"`
	Position uint64    `json:"position"`
	Writer   string    `json:"writer,omitempty"` // none if the instance ended because it has no writers
	Time     time.Time `json:"time"`
	Valid    bool      `json:"valid"`           // it has a value; otherwise its instance ended
	Key      []byte    `json:"key,omitempty"`   // as package cdr encodes it
	Text     string    `json:"text,omitempty"`  // of raw bytes
	Value    any       `json:"value,omitempty"` // of CBOR
	Data     []byte    `json:"data,omitempty"`  // of other encodings
}

// maps of CBOR are printed with texts as keys.
var decoding = func() cbor.DecMode {
	m, err := cbor.DecOptions{DefaultMapType: mapOfTexts}.DecMode()
	if err != nil {
		panic(err) // the options are fixed
	}
	return m
}()

func sampleOf(info dds.TopicInfo, s dds.Sample[dds.Encoded]) Sample {
	out := Sample{
		Topic: info.Name, Position: s.Info.Position, Writer: writerOf(s.Info), Time: time.Unix(0, s.Info.Source), Valid: s.Info.Valid, Key: s.Value.Key,
	}
	switch {
	case !s.Info.Valid:
	case info.Type == dds.Raw().Name() && utf8.Valid(s.Value.Data):
		out.Text = string(s.Value.Data)
	case strings.HasPrefix(info.Type, "cbor:") && decoding.Unmarshal(s.Value.Data, &out.Value) == nil:
	default:
		out.Data = s.Value.Data
	}
	return out
}

// writerOf names the writer of a sample; it is empty if there is none.
func writerOf(info dds.Info) string {
	if info.Writer == (dds.ID{}) {
		return ""
	}
	return info.Writer.String()
}

// line is a sample as one line.
func (s Sample) line() string {
	return fmt.Sprintf("%d %s %s", s.Position, cmp.Or(s.Writer, "–"), show.Text(s.text()))
}

// text is the value of a sample.
func (s Sample) text() string {
	text := s.Text
	switch {
	case !s.Valid:
		text = "the instance ended"
	case s.Value != nil:
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(s.Value)
		if text = strings.TrimSuffix(b.String(), "\n"); err != nil {
			text = fmt.Sprint(s.Value)
		}
	case s.Data != nil:
		text = base64.StdEncoding.EncodeToString(s.Data)
	}
	return text
}

func newSubCommand() *cobra.Command {
	var o options
	var s subscription
	cmd := &cobra.Command{
		Use:   "sub TOPIC [flags]",
		Short: "Print the samples of a topic as they come",
		Long: `Sub prints a line for each sample of a topic: its position in the order, its writer, and its value. Raw bytes are printed as text, quoted if it has control characters, CBOR as JSON, everything else in
base64. A topic that does not exist is declared as one of raw bytes.`,
		Example: `  squall dds sub greetings --listen 127.0.0.1:7001
  squall dds sub positions --join 127.0.0.1:7001 --history --json | jq .value
  squall dds sub alarms --join 127.0.0.1:7001 --qos fleet.json#alarm`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			profile, err := o.profile()
			if err != nil {
				return err
			}
			return o.with(ctx, func(p party) error {
				info := find(p, args[0], profile)
				r, err := s.reader(ctx, p, info, profile)
				if err != nil {
					return err
				}
				return s.print(ctx, cmd.OutOrStdout(), info, r, o.json)
			})
		},
	}
	o.declare(cmd)
	o.profiled(cmd)
	cmd.Flags().IntVar(&s.count, "count", 0, "end after so many samples; 0: none")
	cmd.Flags().BoolVar(&s.history, "history", false, "begin with the history of a durable topic")
	cmd.Flags().StringSliceVar(&s.partitions, "partition", nil, "`names` or patterns of partitions")
	return cmd
}

// subscription is what "squall dds sub" reads.
type subscription struct {
	count      int // of samples; 0: all
	history    bool
	partitions []string
}

func (s *subscription) reader(ctx context.Context, p party, info dds.TopicInfo, profile *dds.Profile) (*dds.Reader[dds.Encoded], error) {
	t, err := open(ctx, p, info)
	if err != nil {
		return nil, err
	}
	set := dds.QoS{History: qos.KeepAll(), Ownership: info.QoS.Ownership, Partitions: s.partitions}
	if profile != nil {
		set = profile.Reader
		if len(s.partitions) > 0 {
			set.Partitions = s.partitions
		}
	}
	if s.history {
		set.Durability = info.QoS.Durability
	}
	return t.Reader(ctx, set)
}

// print prints samples until there are enough, or the context ends.
func (s *subscription) print(ctx context.Context, out io.Writer, info dds.TopicInfo, r *dds.Reader[dds.Encoded], asJSON bool) error {
	for n := 0; s.count == 0 || n < s.count; n++ {
		sample, err := r.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if x := sampleOf(info, sample); asJSON {
			err = show.JSONLine(out, x)
		} else {
			_, err = fmt.Fprintln(out, x.line())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encode makes a sample of a text.
func encode(info dds.TopicInfo, text string) ([]byte, error) {
	switch {
	case info.Keyed:
		return nil, fmt.Errorf("topic %q has keys, which follow from its type: a program that has the type can write it", info.Name)
	case info.Type == dds.Raw().Name():
		return []byte(text), nil
	case strings.HasPrefix(info.Type, "cbor:"):
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return nil, fmt.Errorf("topic %q has samples in CBOR, of which %q is no JSON: %w", info.Name, text, err)
		}
		return cbor.Marshal(v)
	}
	return nil, fmt.Errorf("topic %q is of %s: a program that has the type can write it", info.Name, info.Type)
}

func newPubCommand() *cobra.Command {
	var o options
	var pub publication
	cmd := &cobra.Command{
		Use:   "pub TOPIC [SAMPLE…] [flags]",
		Short: "Write samples of a topic: arguments, or lines of the standard input",
		Long: `Pub writes samples: the arguments, or each line of the standard input. A sample is a text for a topic of raw bytes, and JSON for one of CBOR. A topic that does not exist
is declared as one of raw bytes. It prints how many samples it wrote, once they are delivered, and on the disks if the topic is persistent.`,
		Example: `  squall dds pub greetings "hello" --join 127.0.0.1:7001 --readers 1
  seq 1000 | squall dds pub numbers --join 127.0.0.1:7001`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			profile, err := o.profile()
			if err != nil {
				return err
			}
			return o.with(ctx, func(p party) error {
				written, err := pub.run(ctx, p, find(p, args[0], profile), profile, args[1:], cmd.InOrStdin())
				if o.json {
					return errors.Join(err, show.JSON(cmd.OutOrStdout(), map[string]int{"written": written}))
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s written\n", show.Counted(written, "sample", "samples"))
				return err
			})
		},
	}
	o.declare(cmd)
	o.profiled(cmd)
	cmd.Flags().IntVar(&pub.readers, "readers", 0, "wait until so many readers match before writing")
	cmd.Flags().StringSliceVar(&pub.partitions, "partition", nil, "`names` of partitions")
	return cmd
}

// publication is what "squall dds pub" writes.
type publication struct {
	readers    int // that have to match before
	partitions []string
}

// run writes the samples, and returns how many.
func (x *publication) run(ctx context.Context, p party, info dds.TopicInfo, profile *dds.Profile, samples []string, in io.Reader) (written int, err error) {
	w, err := x.writer(ctx, p, info, profile)
	if err != nil {
		return 0, err
	}
	err = each(samples, in, func(text string) error {
		data, err := encode(info, text)
		if err == nil {
			err = w.Write(ctx, dds.Encoded{Data: data})
		}
		if err == nil {
			written++
		}
		return err
	})
	return written, errors.Join(err, w.Flush(ctx))
}

func (x *publication) writer(ctx context.Context, p party, info dds.TopicInfo, profile *dds.Profile) (*dds.Writer[dds.Encoded], error) {
	t, err := open(ctx, p, info)
	if err != nil {
		return nil, err
	}
	set := dds.QoS{Durability: info.QoS.Durability, Ownership: info.QoS.Ownership, Partitions: x.partitions}
	if profile != nil {
		set = profile.Writer
		if len(x.partitions) > 0 {
			set.Partitions = x.partitions
		}
	}
	w, err := t.Writer(ctx, set)
	if err == nil {
		_, err = w.Matched(ctx, x.readers)
	}
	return w, err
}

// each calls f with the arguments or, without any, with the lines of a reader.
func each(args []string, in io.Reader, f func(string) error) error {
	for _, a := range args {
		if err := f(a); err != nil {
			return err
		}
	}
	if len(args) > 0 {
		return nil
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := f(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}
