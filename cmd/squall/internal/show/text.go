package show

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Text is a text of another process as it can be printed: as it is, or as a Go string if it has
// control characters, which would break lines and tables, and can tell a terminal what to do.
func Text[T ~string](s T) string {
	text := string(s)
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Line is text of which a part may come from another process, without its control characters: each
// is written as in a Go string.
func Line(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// Reason is an error without the operation in front of it, where it is of a file: people name
// files, and no calls.
func Reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Sprintf("%s: %v", at.Path, at.Err)
	}
	return err.Error()
}

// mostShown is the number of bytes of an argument that an error repeats.
const mostShown = 100

// Argument quotes an argument for an error. What is long is cut.
func Argument(text string) string {
	if len(text) > mostShown {
		return strconv.Quote(strings.ToValidUTF8(text[:mostShown], "")) + "…"
	}
	return strconv.Quote(text)
}

// Number prints four digits or so, with thousands apart.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 1000:
		digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
		for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
			digits = digits[:i] + " " + digits[i:]
		}
		return digits
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// Table is a table that is printed to w when it is rendered.
func Table(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.SetOutputMirror(w)
	t.AppendHeader(header)
	return t
}

// IsAddress reports whether a text is HOST:PORT, of a host and a port that a process can have.
func IsAddress(text string) bool {
	host, number, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return false
	}
	port, err := strconv.ParseUint(number, 10, 16)
	return err == nil && port > 0
}

// Addresses checks the addresses that a flag names, as text.
func Addresses(flag string, all []string) error {
	for _, a := range all {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("%s %q: must be HOST:PORT: %w", flag, a, err)
		}
	}
	return nil
}

// AfterEnd calls f, which ends something, with a context that goes on for some time when ctx has
// ended.
func AfterEnd(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	return f(ctx)
}
