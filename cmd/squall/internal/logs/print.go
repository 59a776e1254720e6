package logs

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// style is how records are printed.
type style struct {
	json, raw, hex bool
	format         string
}

func (s *style) declare(f *pflag.FlagSet) {
	f.BoolVar(&s.json, "json", false, "print each record as one JSON object on a line, with its data in base64")
	f.BoolVar(&s.raw, "raw", false, "print the data alone, with nothing between one record's and the next")
	f.BoolVar(&s.hex, "hex", false, "print data in hexadecimal")
	f.StringVar(&s.format, "format", "", "`template` for each record, like '{{.Version}} {{.Data}}'; also .View, .Seq, .Time, .Sender, .Number, .Bytes, .Hex")
}

// shownBytes is how much of a record's data a line shows.
const shownBytes = 256

// printed is a record as templates see it.
type printed struct{ persist.Record }

func (p printed) View() order.ViewID { return p.Record.Version.View }
func (p printed) Seq() order.Seq     { return p.Record.Version.Seq }
func (p printed) Bytes() int         { return len(p.Record.Data) }
func (p printed) Data() string       { return string(p.Record.Data) }
func (p printed) Hex() string        { return hex.EncodeToString(p.Record.Data) }

// line is a record as JSON.
type line struct {
	Version string       `json:"version"`
	View    order.ViewID `json:"view"`
	Seq     order.Seq    `json:"seq"`
	Time    string       `json:"time"`
	TimeNs  order.Time   `json:"time_ns"`
	Sender  order.NodeID `json:"sender"`
	Number  uint64       `json:"number"`
	Bytes   int          `json:"bytes"`
	Data    []byte       `json:"data"`
}

func lineOf(r *persist.Record) line {
	l := line{
		Version: r.Version.String(), View: r.Version.View, Seq: r.Version.Seq, Time: r.Time.String(), TimeNs: r.Time,
		Sender: r.Sender, Number: r.Number, Bytes: len(r.Data), Data: r.Data,
	}
	if l.Data == nil {
		l.Data = []byte{}
	}
	return l
}

// printer returns the function that prints a record. Nothing is held back longer than it takes to
// flush.
func (s *style) printer(w *bufio.Writer) (func(*persist.Record) error, error) {
	chosen := 0
	for _, on := range []bool{s.json, s.raw, s.hex, s.format != ""} {
		if on {
			chosen++
		}
	}
	if chosen > 1 {
		return nil, errors.New("--json, --raw, --hex, --format: use one of them")
	}
	switch {
	case s.json:
		return func(r *persist.Record) error { return show.JSONLine(w, lineOf(r)) }, nil
	case s.raw:
		return func(r *persist.Record) error { _, err := w.Write(r.Data); return err }, nil
	case s.format != "":
		return s.template(w)
	}
	text := quoted
	if s.hex {
		text = func(data []byte) string { return hex.EncodeToString(data) }
	}
	return func(r *persist.Record) error {
		_, err := fmt.Fprintf(w, "%-12v %s  node %-3d %9s  %s\n", r.Version, stamp(r.Time), r.Sender, show.Bytes(int64(len(r.Data))), text(r.Data))
		return err
	}, nil
}

func (s *style) template(w io.Writer) (func(*persist.Record) error, error) {
	t, err := template.New("--format").Parse(s.format)
	if err == nil {
		err = t.Execute(io.Discard, printed{})
	}
	if err != nil {
		return nil, fmt.Errorf("--format %q: %w", s.format, err)
	}
	return func(r *persist.Record) error {
		if err := t.Execute(w, printed{*r}); err != nil {
			return err
		}
		_, err := io.WriteString(w, "\n")
		return err
	}, nil
}

// stamp is a time with the same width for all.
func stamp(t order.Time) string { return t.Time().Format("2006-01-02T15:04:05.000000000Z07:00") }

// briefly is a time for a table.
func briefly(t order.Time) string { return t.Time().Format(time.DateTime) }

// quoted is data as text if it is some, and otherwise, or if control characters are in it, as a Go
// string. What is long is cut.
func quoted(data []byte) string {
	text, rest := string(data), ""
	if len(data) > shownBytes {
		n := shownBytes
		for n > shownBytes-utf8.UTFMax && !utf8.RuneStart(data[n]) {
			n--
		}
		text, rest = string(data[:n]), fmt.Sprintf(" … %s more bytes", humanize.Comma(int64(len(data)-n)))
	}
	return show.Text(text) + rest
}
