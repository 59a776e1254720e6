package demo

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// maxText is how much text a demo takes, in bytes: the parent and, share by share, its members hold
// it in memory.
const maxText = 256 << 20

// tzdata is the text that comes with the program; text/README.md says where it is from.
//
//go:embed text/tzdata.zi
var tzdata []byte

// text is what the members send.
type text struct {
	name  string
	lines [][]byte
}

// readText reads files, standard input for "-", or takes the built-in text if there are none. It
// reports everything that is wrong with the files.
func readText(files []string, stdin io.Reader) (t text, faults []error) {
	if len(files) == 0 {
		return text{"tzdata.zi (built in)", split(tzdata)}, nil
	}
	var names []string
	left := maxText
	for _, name := range files {
		data, err := readFile(name, stdin, left)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		left -= len(data)
		names = append(names, filepath.Base(name))
		t.lines = append(t.lines, split(data)...)
	}
	t.name = strings.Join(names, ", ")
	if len(names) > 3 {
		t.name = fmt.Sprintf("%d files", len(names))
	}
	if len(faults) == 0 && len(t.lines) == 0 {
		faults = append(faults, fmt.Errorf("%s: nothing to send, not one line", strings.Join(files, ", ")))
	}
	return t, faults
}

func readFile(name string, stdin io.Reader, limit int) ([]byte, error) {
	in := stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, errors.New(show.Reason(err))
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err != nil {
		return nil, errors.New(show.Reason(err))
	}
	if len(data) > limit {
		return nil, fmt.Errorf("%s: the demo takes at most %d MiB of text", name, maxText>>20)
	}
	return data, nil
}

// split cuts data into lines without their ends, and lines that no message could carry into
// several.
func split(data []byte) (lines [][]byte) {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		for len(line) > maxMessage {
			lines = append(lines, line[:maxMessage])
			line = line[maxMessage:]
		}
		lines = append(lines, line)
	}
	return lines
}

// share is what member i of n sends: every n-th line.
func (t text) share(i, n int) (lines [][]byte) {
	for ; i < len(t.lines); i += n {
		lines = append(lines, t.lines[i])
	}
	return lines
}
