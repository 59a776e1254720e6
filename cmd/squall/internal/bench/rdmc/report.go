package rdmc

import (
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// columns are the figures of a run in a CSV file.
var columns = []bench.Column[Run]{
	{Name: "nodes", Of: func(r Run) float64 { return float64(r.of.Nodes) }},
	{Name: "bytes", Of: func(r Run) float64 { return float64(r.of.Bytes) }},
	{Name: "rate_bits_per_s", Of: func(r Run) float64 { return float64(r.of.Rate) }},
	{Name: "block_bytes", Of: func(r Run) float64 { return float64(r.of.BlockBytes) }},
	{Name: "seconds", Of: seconds},
	{Name: "of_ideal", Of: ofIdeal},
	{Name: "skew_s", Of: func(r Run) float64 { return r.Skew }},
	{Name: "skew_blocks", Of: skewBlocks},
	{Name: "cpu_s_per_gb", Of: cpuPerGB},
	{Name: "machine_cpu_s_per_gb", Of: busyPerGB},
	{Name: "peak_bytes", Of: peakBytes},
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
func line(s Series, c Case) table.Row {
	v := s.Values(seconds)
	least, most := v.Range()
	block, rate := "–", "one host"
	if c.BlockBytes > 0 {
		block = humanize.IBytes(uint64(c.BlockBytes))
	}
	if c.Rate > 0 {
		rate = c.Rate.String()
	}
	return table.Row{
		c.title(), c.Nodes, humanize.IBytes(uint64(c.Bytes)), rate, number(v.Median()), number(least) + " – " + number(most),
		number(median(s, ofIdeal)), block, number(median(s, skewBlocks)), number(median(s, cpuPerGB)), number(median(s, busyPerGB)), memory(median(s, peakBytes)),
	}
}

var header = table.Row{"schedule", "n", "size", "link", "s", "range", "of ideal", "block", "skew, blocks", "CPU s/GB", "machine s/GB", "memory beyond"}

// casesTable has everything that was measured.
func casesTable(all []Series) table.Writer {
	t := table.NewWriter()
	t.AppendHeader(header)
	for _, s := range all {
		if c, ok := s.Spec.(Case); ok && len(s.Runs) > 0 {
			t.AppendRow(line(s, c))
		}
	}
	var right []table.ColumnConfig
	for i := 2; i <= len(header); i++ {
		right = append(right, table.ColumnConfig{Number: i, Align: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	return t
}
