package topics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// Busy is a topic in what "squall dds top --json" prints.
type Busy struct {
	rate
	Writers int    `json:"writers"`
	Readers int    `json:"readers"`         // without the readers of pages and of this command
	Fault   string `json:"fault,omitempty"` // why its samples are not counted
}

// The help of this command.
const (
	topHelp = `Top shows, until it is interrupted, for each topic of a space: writers, readers, samples and bytes each second, and latencies. It reads the topics that are named, or all, with readers
that delay no writer. On a terminal each table takes the place of the one before.

A latency is the time between the writing of a sample and its arrival here: between two hosts it is as good as their clocks agree.`
	topExamples = `  squall dds top --join 127.0.0.1:7001
  squall dds top positions --connect 127.0.0.1:8001 --every 5s
  squall dds top --join 127.0.0.1:7001 --count 1 --json | jq '.[] | {topic, samples}'`
)

func newTopCommand() *cobra.Command {
	var o options
	var every time.Duration
	var count int
	cmd := &cobra.Command{
		Use:     "top [TOPIC…] [flags]",
		Short:   "Show rates and latencies of topics, again and again",
		Long:    topHelp,
		Example: topExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if every <= 0 || count < 0 {
				return fmt.Errorf("--every %v and --count %d: the time must be more than 0, and the number not negative", every, count)
			}
			ctx := cmd.Context()
			return o.with(ctx, func(p party) error {
				return newBoard(p, o.space, args).top(ctx, cmd.OutOrStdout(), every, count, o.json)
			})
		},
	}
	o.declare(cmd)
	cmd.Flags().DurationVar(&every, "every", time.Second, "time between two tables")
	cmd.Flags().IntVar(&count, "count", 0, "end after so many tables; 0: none")
	show.NoFiles(cmd, "every", "count")
	return cmd
}

// top shows a table again and again, count times unless that is 0.
func (b *board) top(ctx context.Context, out io.Writer, every time.Duration, count int, asJSON bool) error {
	faults := b.join(ctx)
	n := 0
	err := b.each(ctx, every, nil, func(span time.Duration) error {
		all := b.busy(span, faults)
		faults = b.join(ctx)
		n++
		if err := showBusy(out, all, asJSON); err != nil {
			return err
		}
		if n == count {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var errEnough = errors.New("all tables were shown")

// busy returns the topics with what was measured in a time.
func (b *board) busy(span time.Duration, faults map[string]string) []Busy {
	rates, _ := b.measured(span)
	all := []Busy{}
	for _, t := range b.p.Topics() {
		if !b.wants(t.Name) {
			continue
		}
		x := Busy{rate: rate{Topic: t.Name}, Fault: faults[t.Name]}
		for _, r := range rates {
			if r.Topic == t.Name {
				x.rate = r
			}
		}
		for _, e := range b.p.Endpoints() {
			switch {
			case e.Topic != t.Name || string(e.QoS.UserData) == uiMark:
			case e.Reader:
				x.Readers++
			default:
				x.Writers++
			}
		}
		all = append(all, x)
	}
	return all
}

// clearScreen has a terminal begin at the top of an empty screen.
const clearScreen = "\x1b[H\x1b[2J"

func showBusy(out io.Writer, all []Busy, asJSON bool) error {
	if asJSON {
		return show.JSONLine(out, all)
	}
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"topic", "writers", "readers", "samples/s", "bytes/s", "p50", "p99", "samples"})
	for _, x := range all {
		if x.Fault != "" {
			t.AppendRow(table.Row{show.Text(x.Topic), x.Writers, x.Readers, x.Fault})
			continue
		}
		latency := func(us float64) string {
			if x.Samples == 0 {
				return "–"
			}
			return time.Duration(us * 1e3).Round(100 * time.Nanosecond).String()
		}
		t.AppendRow(table.Row{show.Text(x.Topic), x.Writers, x.Readers, humanize.CommafWithDigits(x.Samples, 0), humanize.Bytes(uint64(x.Bytes)), latency(x.P50), latency(x.P99), humanize.Comma(int64(x.Total))})
	}
	text := t.Render() + "\n"
	if show.IsTerminal(out) {
		text = clearScreen + text
	}
	_, err := io.WriteString(out, text)
	return err
}
