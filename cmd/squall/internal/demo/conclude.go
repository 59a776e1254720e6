package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
	style "github.com/jedib0t/go-pretty/v6/text"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// finding is what a demo found out, of any kind.
type finding interface {
	writeTable(io.Writer) error
}

// conclude prints what a demo found out, for programs or for people, unless it was interrupted. It
// returns err, how the demo went.
func (o options) conclude(ctx context.Context, found finding, out io.Writer, err error) error {
	switch {
	case ctx.Err() != nil:
		return err
	case o.JSON:
		return errors.Join(show.JSON(out, found), err)
	}
	return errors.Join(found.writeTable(out), err)
}

// tidy removes the directory of a demo that was not asked for, unless it shows why the demo failed:
// then the error says where it is.
func (o options) tidy(ctx context.Context, err error, dir, has string) error {
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("%w\n%s %s", err, has, dir)
	case o.Dir == "":
		return errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// newTable is a table of numbers that fits into 110 columns. Where the first of two headers says
// the same of neighbours, it says it once.
func newTable(headers ...table.Row) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = style.FormatDefault
	t.Style().Options.DrawBorder, t.Style().Options.SeparateColumns = false, false
	for i, h := range headers {
		t.AppendHeader(h, table.RowConfig{AutoMerge: i < len(headers)-1})
	}
	var columns []table.ColumnConfig
	for i := range headers[0] {
		columns = append(columns, table.ColumnConfig{Number: i + 1, Align: style.AlignRight, AlignHeader: style.AlignRight})
	}
	t.SetColumnConfigs(columns)
	return t
}
