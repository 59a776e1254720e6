package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/squall-go/squall/internal/crc"
)

type sample struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// frame is a message with a right checksum, and any length.
func frame(length uint32, body string) []byte {
	f := append(NewFrame(len(body)), body...)
	seal(Message, f)
	binary.LittleEndian.PutUint32(f, length)
	return f
}

func read(from io.Reader, v any) error { return ReadMessage(from, MaxMessageBytes, v) }

func TestReadMessageNeverReadsPastItsMessage(t *testing.T) {
	var on bytes.Buffer
	for i := range 3 {
		if err := WriteMessage(&on, sample{Name: "n", Count: i}); err != nil {
			t.Fatal(err)
		}
	}
	on.WriteString("rows follow")
	for i := range 3 {
		var got sample
		if err := read(&on, &got); err != nil || got.Count != i {
			t.Fatalf("message %d: %+v, %v", i, got, err)
		}
	}
	if rest := on.String(); rest != "rows follow" {
		t.Fatalf("left on the connection: %q", rest)
	}
}

func TestAMessageArrivesInAnyPieces(t *testing.T) {
	var on bytes.Buffer
	want := sample{Name: strings.Repeat("x", 10_000), Count: 7}
	if err := WriteMessage(&on, want); err != nil {
		t.Fatal(err)
	}
	var got sample
	if err := read(iotest.OneByteReader(&on), &got); err != nil || got != want {
		t.Fatalf("%d, %v", got.Count, err)
	}
}

func TestTheLimitIsExactOnBothSides(t *testing.T) {
	fits := strings.Repeat("x", MaxMessageBytes-2) // the quotes make it MaxMessageBytes
	var on bytes.Buffer
	var got string
	if err := errors.Join(WriteMessage(&on, fits), read(&on, &got)); err != nil || got != fits {
		t.Fatal(err)
	}
	if err := WriteMessage(&on, fits+"x"); !errors.Is(err, ErrTooLarge) || on.Len() != 0 {
		t.Fatalf("%v, %d bytes were sent", err, on.Len())
	}
}

func TestAHugeLengthIsAnErrorBeforeAnythingIsAllocated(t *testing.T) {
	for _, length := range []uint32{MaxMessageBytes + 1, 1 << 31, 1<<32 - 1} {
		sent := frame(length, "{}")
		var got sample
		if err := read(bytes.NewReader(sent), &got); !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			_ = read(bytes.NewReader(sent), &got)
		}
		runtime.ReadMemStats(&after)
		bytesMax := (after.TotalAlloc - before.TotalAlloc) / 100
		if bytesMax > 4096 {
			t.Fatalf("length %d: %d bytes allocated", length, bytesMax)
		}
	}
}

func TestWhatIsNotExactlyOneValueIsMalformed(t *testing.T) {
	for _, body := range []string{"", "{", `{}{}`, `{} x`, `[]`, `{"count":"seven"}`, "\x00\x00"} {
		var got sample
		if err := read(bytes.NewReader(frame(uint32(len(body)), body)), &got); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestTheEndBetweenMessagesIsNotTheEndWithinOne(t *testing.T) {
	var got sample
	if err := read(strings.NewReader(""), &got); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for _, sent := range [][]byte{frame(2, "")[:3], frame(2, ""), frame(2, "{")} {
		if err := read(bytes.NewReader(sent), &got); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			t.Fatalf("%q: %v", sent, err)
		}
	}
}

// FuzzReadMessage: the decoder that all conversations share takes whatever comes, and believes only
// what its checksum confirms.
func FuzzReadMessage(f *testing.F) {
	f.Add(append(frame(2, "{}"), "tail"...))
	f.Add(frame(1<<31, "{}"))
	f.Add(frame(5, "[1,2"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := bytes.NewReader(sent)
		var got any
		err := read(r, &got)
		used := len(sent) - r.Len()
		if len(sent) >= HeaderBytes {
			if announced := int(binary.LittleEndian.Uint32(sent)); used > HeaderBytes+announced {
				t.Fatalf("read %d bytes of a message of %d", used, announced)
			}
		}
		if err != nil {
			return
		}
		if !json.Valid(sent[HeaderBytes:used]) || crc.Of(sent[8:used]) != binary.LittleEndian.Uint32(sent[4:]) || Kind(sent[8]) != Message {
			t.Fatalf("CV1: accepted %q", sent[:used])
		}
	})
}
