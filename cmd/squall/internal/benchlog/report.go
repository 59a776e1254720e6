package benchlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
)

// Report is what a command measured, as --json prints it.
type Report struct {
	Dir        string   `json:"dir"`
	FileSystem string   `json:"file_system"`
	Runs       int      `json:"runs"`
	Series     []Series `json:"series"`
	Rows       []Row    `json:"rows"`
}

// Row is one figure, beside its limit if it has one. What is judged is the median of the ratios of the rounds.
type Row struct {
	figures.Beside
	Pairs *figures.Summary `json:"ratio,omitempty"`
	figures.Judged
}

// err is what went wrong, but for other systems and ways to write that are not there.
func (r Report) err() error {
	var errs []error
	for _, s := range r.Series {
		if s.Err != nil && !errors.Is(s.Err, errNoRival) && !errors.Is(s.Err, errNotAround) {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, s.Err))
		}
	}
	return errors.Join(errs...)
}

// write prints the rows, as Markdown or for people.
func (r Report) write(w io.Writer, markdown bool) {
	rows := make([]figures.Row, len(r.Rows))
	for i, row := range r.Rows {
		rows[i] = row.judged()
	}
	t := figures.JudgedTable(w, "ratio (of rounds)", rows)
	if markdown {
		t.RenderMarkdown()
	} else {
		t.Render()
	}
}

// judged is the row with what was held against the bar.
func (r Row) judged() figures.Row {
	row := figures.Row{Beside: r.Beside, Pairs: r.Pairs, Judged: r.Judged}
	if r.Pairs != nil {
		row.Ratio = r.Pairs.Median
	}
	return row
}
