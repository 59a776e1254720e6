package progress

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// stutter returns no bytes a number of times before each read.
type stutter struct {
	from  io.Reader
	empty int
	left  int
}

// Read implements io.Reader.
func (s *stutter) Read(b []byte) (int, error) {
	if s.left > 0 {
		s.left--
		return 0, nil
	}
	s.left = s.empty
	return s.from.Read(b[:min(len(b), 1)])
}

func TestAReaderThatMakesNoProgressFails(t *testing.T) {
	for empty, want := range map[int]error{0: nil, MaxEmptyReads - 1: nil, MaxEmptyReads: io.ErrNoProgress} {
		into := make([]byte, 5)
		_, err := io.ReadFull(Reader(&stutter{from: strings.NewReader("hello"), empty: empty, left: empty}), into)
		if !errors.Is(err, want) || want == nil && string(into) != "hello" {
			t.Errorf("%d reads without bytes between two bytes: %q, %v", empty, into, err)
		}
	}
}

func TestAReaderIsReadToItsEnd(t *testing.T) {
	b, err := io.ReadAll(Reader(&stutter{from: strings.NewReader("hello"), empty: 3}))
	if string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
