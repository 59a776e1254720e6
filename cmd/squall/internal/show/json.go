package show

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/dustin/go-humanize"
)

// JSON prints a result for programs.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// JSONLine prints one object on a line.
func JSONLine(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// CSV writes lines to a file.
func CSV(path string, lines [][]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(f).WriteAll(lines), f.Close())
}

// Counted is a number of things.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(int64(n)) + " " + many
}

// Bytes is a number of bytes for people.
func Bytes(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }
