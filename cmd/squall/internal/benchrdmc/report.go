package benchrdmc

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"
)

// Report is what a command measured, as --json prints it.
type Report struct {
	Machine  string    `json:"machine"`
	Runs     int       `json:"runs"`
	Series   []Series  `json:"series"`
	Findings []Finding `json:"findings,omitempty"`
}

// thisMachine is where figures come from.
func thisMachine() string {
	system := runtime.GOOS
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		system = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	return fmt.Sprintf("%d cores, %s %s, %s", runtime.NumCPU(), system, runtime.GOARCH, runtime.Version())
}

// number prints three or four digits.
func number(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v >= 100 || v <= -100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10 || v <= -10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// memory prints bytes; a receiver may have used less than before.
func memory(v float64) string {
	if v < 0 {
		return "–"
	}
	return humanize.IBytes(uint64(v))
}

// line is a case in a table.
func (s *Series) line() table.Row {
	v := s.values(seconds)
	if len(v) == 0 {
		return table.Row{s.title(), s.Nodes, humanize.IBytes(uint64(s.Bytes)), "", "failed: " + s.Error}
	}
	block, rate := "–", "one host"
	if s.BlockBytes > 0 {
		block = humanize.IBytes(uint64(s.BlockBytes))
	}
	if s.Rate > 0 {
		rate = s.Rate.String()
	}
	return table.Row{
		s.title(), s.Nodes, humanize.IBytes(uint64(s.Bytes)), rate, number(s.median(seconds)), number(v[0]) + " – " + number(v[len(v)-1]),
		number(s.median(ofIdeal)), block, number(s.median(skewBlocks)), number(s.median(cpuPerGB)), number(s.median(busyPerGB)), memory(s.median(peakBytes)),
	}
}

var header = table.Row{"schedule", "n", "size", "link", "s", "range", "of ideal", "block", "skew, blocks", "CPU s/GB", "machine s/GB", "memory beyond"}

func (r Report) cases() table.Writer {
	t := table.NewWriter()
	t.AppendHeader(header)
	for i := range r.Series {
		if s := &r.Series[i]; s.err == nil || len(s.Runs) > 0 {
			t.AppendRow(s.line())
		}
	}
	var right []table.ColumnConfig
	for i := 2; i <= len(header); i++ {
		right = append(right, table.ColumnConfig{Number: i, Align: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	return t
}

func (r Report) judged() table.Writer {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"what", "reached", "bar", "ok/missed"})
	for _, f := range r.Findings {
		bar, reached := "–", number(f.Reached)
		if f.Want != anything {
			bar = fmt.Sprintf("%s %.2f", f.Want, f.Limit)
		}
		if f.Verdict != "" && f.Verdict != verdictOK && f.Verdict != verdictMissed {
			reached = "–"
		}
		t.AppendRow(table.Row{f.What, reached, bar, f.Verdict})
	}
	return t
}

// writeText prints the report for people.
func (r Report) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s; medians of %d runs\n", r.Machine, r.Runs)
	for _, t := range r.tables() {
		t.SetStyle(table.StyleLight)
		t.Style().Format.Header = text.FormatDefault
		fmt.Fprintln(w, t.Render())
	}
}

// writeMarkdown prints it as it stands in docs/benchmarks.md.
func (r Report) writeMarkdown(w io.Writer) {
	fmt.Fprintf(w, "%s; medians of %d runs.\n", r.Machine, r.Runs)
	for _, t := range r.tables() {
		fmt.Fprintf(w, "\n%s\n", t.RenderMarkdown())
	}
}

// tables are the judgements, if there are any, and all cases.
func (r Report) tables() []table.Writer {
	if len(r.Findings) == 0 {
		return []table.Writer{r.cases()}
	}
	return []table.Writer{r.judged(), r.cases()}
}

func (r Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeCSV writes every run to a file.
func (r Report) writeCSV(path string) error {
	lines := [][]string{{"case", "nodes", "bytes", "rate_bits_per_s", "block_bytes", "run", "seconds", "of_ideal", "skew_s", "skew_blocks", "cpu_s_per_gb", "machine_cpu_s_per_gb", "peak_bytes"}}
	for _, s := range r.Series {
		for i, run := range s.Runs {
			line := []string{s.title()}
			for _, v := range []float64{
				float64(s.Nodes), float64(s.Bytes), float64(s.Rate), float64(s.BlockBytes), float64(i + 1),
				run.Seconds, run.Ideal, run.Skew, run.SkewBlocks, run.CPUPerGB, run.BusyPerGB, run.PeakBytes,
			} {
				line = append(line, strconv.FormatFloat(v, 'g', 10, 64))
			}
			lines = append(lines, line)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(f).WriteAll(lines), f.Close())
}

// failed is what could not be measured. That the nodes share no memory is a finding, and no failure.
func (r Report) failed() error {
	var errs []error
	for _, s := range r.Series {
		if s.err != nil && !errors.Is(s.err, errNotShared) {
			errs = append(errs, fmt.Errorf("%s, %d nodes: %w", s.title(), s.Nodes, s.err))
		}
	}
	return errors.Join(errs...)
}
