package port

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
)

type sample struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

func frame(length uint32, body string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, length), body...)
}

func TestReadMessageNeverReadsPastItsMessage(t *testing.T) {
	var wire bytes.Buffer
	for i := range 3 {
		if err := WriteMessage(&wire, sample{Name: "n", Count: i}); err != nil {
			t.Fatal(err)
		}
	}
	wire.WriteString("rows follow")
	for i := range 3 {
		var got sample
		if err := ReadMessage(&wire, &got); err != nil || got.Count != i {
			t.Fatalf("message %d: %+v, %v", i, got, err)
		}
	}
	if rest := wire.String(); rest != "rows follow" {
		t.Fatalf("left on the connection: %q", rest)
	}
}

func TestAMessageArrivesInAnyPieces(t *testing.T) {
	var wire bytes.Buffer
	want := sample{Name: strings.Repeat("x", 10_000), Count: 7}
	if err := WriteMessage(&wire, want); err != nil {
		t.Fatal(err)
	}
	var got sample
	if err := ReadMessage(iotest.OneByteReader(&wire), &got); err != nil || got != want {
		t.Fatalf("%d, %v", got.Count, err)
	}
}

func TestTheLimitIsExactOnBothSides(t *testing.T) {
	fits := strings.Repeat("x", MaxMessageBytes-2) // the quotes make it MaxMessageBytes
	var wire bytes.Buffer
	var got string
	if err := errors.Join(WriteMessage(&wire, fits), ReadMessage(&wire, &got)); err != nil || got != fits {
		t.Fatal(err)
	}
	if err := WriteMessage(&wire, fits+"x"); !errors.Is(err, ErrMessageTooLarge) || wire.Len() != 0 {
		t.Fatalf("%v, %d bytes were sent", err, wire.Len())
	}
}

func TestAHugeLengthIsAnErrorBeforeAnythingIsAllocated(t *testing.T) {
	for _, length := range []uint32{MaxMessageBytes + 1, 1 << 31, 1<<32 - 1} {
		sent := frame(length, "{}")
		var got sample
		if err := ReadMessage(bytes.NewReader(sent), &got); !errors.Is(err, ErrMessageTooLarge) {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			_ = ReadMessage(bytes.NewReader(sent), &got)
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
		if err := ReadMessage(bytes.NewReader(frame(uint32(len(body)), body)), &got); !errors.Is(err, ErrMessageMalformed) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestTheEndBetweenMessagesIsNotTheEndWithinOne(t *testing.T) {
	var got sample
	if err := ReadMessage(strings.NewReader(""), &got); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for _, sent := range [][]byte{frame(2, "")[:3], frame(2, ""), frame(2, "{")} {
		if err := ReadMessage(bytes.NewReader(sent), &got); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			t.Fatalf("%q: %v", sent, err)
		}
	}
}

func FuzzReadMessage(f *testing.F) {
	f.Add(frame(2, "{}tail"))
	f.Add(frame(1<<31, "{}"))
	f.Add(frame(5, "[1,2"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := bytes.NewReader(sent)
		var got any
		err := ReadMessage(r, &got)
		read := len(sent) - r.Len()
		if len(sent) >= lengthBytes {
			if announced := int(binary.LittleEndian.Uint32(sent)); read > lengthBytes+announced {
				t.Fatalf("read %d bytes of a message of %d", read, announced)
			}
		}
		if err == nil && !json.Valid(sent[lengthBytes:read]) {
			t.Fatalf("accepted %q", sent[lengthBytes:read])
		}
	})
}
