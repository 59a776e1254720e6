package mcap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	other "github.com/foxglove/mcap/go/mcap"
)

// all reads the records of a file until its end or a fault.
func all(b []byte) (records []any, err error) {
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		if m, ok := rec.(*Message); ok {
			c := *m
			c.Data = bytes.Clone(m.Data)
			rec = &c
		}
		records = append(records, rec)
	}
}

func messages(records []any) (n int) {
	for _, r := range records {
		if _, ok := r.(*Message); ok {
			n++
		}
	}
	return n
}

// sample writes a file with messages of two channels, in several chunks.
func sample(t testing.TB, n int, change func(int, *Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{"profile", "library"})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	check(w.Metadata(Metadata{"about", map[string]string{"b": "2", "a": "1"}}))
	schema, err := w.Schema(Schema{Name: "Fleet::Position", Encoding: "omgidl", Data: []byte("struct x {};")})
	check(err)
	first, err := w.Channel(Channel{Schema: schema, Topic: "one", Encoding: "cdr", Metadata: map[string]string{"k": "v"}})
	check(err)
	second, err := w.Channel(Channel{Topic: "two", Encoding: "cbor"})
	check(err)
	for i := range n {
		m := Message{first, uint32(i), uint64(1000 + i), uint64(i), []byte(strings.Repeat("x", i%50))}
		if i%3 == 0 {
			m.Channel = second
		}
		check(w.Message(&m))
		if change != nil {
			change(i, w)
		}
	}
	check(w.Close())
	if w.Message(&Message{Channel: first}) == nil || w.Close() == nil {
		t.Error("a file that was closed takes more")
	}
	return b.Bytes()
}

func tenth(i int, w *Writer) {
	if i%10 == 9 {
		w.Flush()
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	records, err := all(sample(t, 100, tenth))
	if err != nil || len(records) != 1+1+1+2+100 {
		t.Fatalf("%d records: %v", len(records), err)
	}
	for i, want := range []string{"&{profile library}", "&{about map[a:1 b:2]}", "&{1 Fleet::Position omgidl struct x {};}", "&{1 1 one cdr map[k:v]}", "&{2 0 two cbor map[]}"} {
		if is := strings.Replace(fmt.Sprint(records[i]), fmt.Sprint([]byte("struct x {};")), "struct x {};", 1); is != want {
			t.Errorf("record %d is %s, and not %s", i, is, want)
		}
	}
	for i, r := range records[5:] {
		m := r.(*Message)
		if m.Sequence != uint32(i) || m.Published != uint64(i) || m.Logged != uint64(1000+i) || len(m.Data) != i%50 || m.Channel != map[bool]uint16{true: 2, false: 1}[i%3 == 0] {
			t.Errorf("message %d is %+v", i, m)
		}
	}
}

// The library of the format's authors reads the same, from the beginning and by the index.
func TestAnotherLibraryReadsTheFiles(t *testing.T) {
	b := sample(t, 1000, tenth)
	r, err := other.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	info, err := r.Info()
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Statistics; s.MessageCount != 1000 || s.ChunkCount != 100 || s.ChannelMessageCounts[2] != 334 || s.MessageStartTime != 1000 || s.MessageEndTime != 1999 || s.MetadataCount != 1 || s.SchemaCount != 1 || s.ChannelCount != 2 {
		t.Errorf("its statistics: %+v", s)
	}
	m, err := r.GetMetadata(info.MetadataIndexes[0].Offset)
	if err != nil || m.Metadata["a"] != "1" {
		t.Errorf("its metadata: %v, %v", m, err)
	}
	indexed := 0
	for _, x := range info.ChunkIndexes {
		records := b[x.ChunkStartOffset+headBytes+chunkBytes : x.ChunkStartOffset+x.ChunkLength]
		for channel, at := range x.MessageIndexOffsets {
			n := le.Uint64(b[at+1:])
			index, err := other.ParseMessageIndex(b[at+headBytes : at+headBytes+n])
			if err != nil || b[at] != opMessageIndex || index.ChannelID != channel {
				t.Fatalf("the index at byte %d: %+v, %v", at, index, err)
			}
			for _, e := range index.Records {
				if e.Offset == 0 && e.Timestamp == 0 { // room that is not used
					continue
				}
				m, err := other.ParseMessage(records[e.Offset+headBytes : e.Offset+headBytes+le.Uint64(records[e.Offset+1:])])
				if err != nil || records[e.Offset] != opMessage || m.LogTime != e.Timestamp || m.ChannelID != channel {
					t.Fatalf("the message at byte %d of a chunk: %+v, %v", e.Offset, m, err)
				}
				indexed++
			}
		}
	}
	if indexed != 1000 {
		t.Errorf("%d messages have an index", indexed)
	}
	for _, options := range [][]other.ReadOpt{
		{other.UsingIndex(false)}, {other.UsingIndex(true), other.InOrder(other.LogTimeOrder)}, {other.UsingIndex(true), other.WithTopics([]string{"one", "two"}), other.InOrder(other.FileOrder)},
	} {
		it, err := r.Messages(options...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			schema, c, m, err := it.NextInto(nil)
			if err != nil {
				t.Fatal(i, err)
			}
			if m.Sequence != uint32(i) || m.LogTime != uint64(1000+i) || m.PublishTime != uint64(i) || len(m.Data) != i%50 || (c.Topic == "one") != (schema != nil && schema.Encoding == "omgidl") {
				t.Fatalf("message %d is %+v of %+v", i, m, c)
			}
		}
		if _, _, _, err := it.NextInto(nil); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	lexer, err := other.NewLexer(bytes.NewReader(b), &other.LexerOptions{ValidateChunkCRCs: true})
	if err != nil {
		t.Fatal(err)
	}
	defer lexer.Close()
	for {
		kind, data, err := lexer.Next(nil)
		if kind == other.TokenFooter {
			if f, err := other.ParseFooter(data); err != nil || f.SummaryCRC == 0 {
				t.Error(f, err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Files of that library are read, unless they are compressed.
func TestFilesOfAnotherLibraryAreRead(t *testing.T) {
	for _, o := range []other.WriterOptions{
		{IncludeCRC: true, Chunked: true, ChunkSize: 100}, {Chunked: true}, {IncludeCRC: true}, {Chunked: true, SkipMessageIndexing: true, SkipSummaryOffsets: true},
		{IncludeCRC: true, Chunked: true, Compression: other.CompressionZSTD}, {Chunked: true, Compression: other.CompressionLZ4},
	} {
		var b bytes.Buffer
		w, err := other.NewWriter(&b, &o)
		if err == nil {
			err = errors.Join(w.WriteHeader(&other.Header{}), w.WriteChannel(&other.Channel{ID: 7, Topic: "x"}))
		}
		for i := range 20 {
			err = errors.Join(err, w.WriteMessage(&other.Message{ChannelID: 7, Sequence: uint32(i), Data: []byte("data")}))
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		records, err := all(b.Bytes())
		if o.Compression != "" {
			if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), string(o.Compression)) {
				t.Errorf("compressed with %s: %v", o.Compression, err)
			}
		} else if err != nil || messages(records) != 20 {
			t.Errorf("%+v: %d messages, %v", o, messages(records), err)
		}
	}
}

// A file that ends anywhere is torn, and has the messages of the chunks before.
func TestATornFileHasWhatWasWrittenBefore(t *testing.T) {
	b := sample(t, 40, tenth)
	before := 0
	for n := range b {
		records, err := all(b[:n])
		var f *Fault
		if !errors.Is(err, ErrTorn) || !errors.As(err, &f) || f.Offset > int64(n) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
		if m := messages(records); m < before || m%10 != 0 {
			t.Fatalf("%d of %d bytes have %d messages, and fewer have %d", n, len(b), m, before)
		} else {
			before = m
		}
	}
	if before != 40 {
		t.Errorf("%d messages", before)
	}
}

// A bit that changes is found, wherever it is.
func TestADamagedFileIsFound(t *testing.T) {
	b := sample(t, 40, tenth)
	for i := range b {
		for _, bit := range []byte{1, 128} {
			b[i] ^= bit
			if _, err := all(b); err == nil {
				t.Fatalf("bit %d of byte %d of %d changed", bit, i, len(b))
			} else if i >= len(magic) && i < len(b)-headBytes-footerBytes-len(magic) && !errors.Is(err, ErrDamaged) {
				t.Fatalf("bit %d of byte %d of %d changed: %v", bit, i, len(b), err)
			}
			b[i] ^= bit
		}
	}
	// A chunk has a checksum of its own, which tells where, also in a file that has no end.
	cut := bytes.Clone(b[:len(b)/2])
	cut[bytes.Index(cut, []byte("xxxxx"))] ^= 1
	if records, err := all(cut); !errors.Is(err, ErrDamaged) || messages(records) != 0 {
		t.Errorf("a torn file whose first chunk is damaged has %d messages: %v", messages(records), err)
	}
	if _, err := all(append(b, b...)); !errors.Is(err, ErrDamaged) {
		t.Errorf("two files in one: %v", err)
	}
	if _, err := all([]byte("PK\x03\x04 something else")); !errors.Is(err, ErrUnsupported) {
		t.Errorf("another format: %v", err)
	}
}

// failing fails after some bytes.
type failing struct{ room int }

func (f *failing) Write(b []byte) (int, error) {
	if f.room < len(b) {
		return f.room, errors.New("no space")
	}
	f.room -= len(b)
	return len(b), nil
}

func TestAWriterKeepsItsError(t *testing.T) {
	w, err := NewWriter(&failing{100}, Header{})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := w.Channel(Channel{Topic: "x"})
	m := &Message{Channel: c, Data: make([]byte, 100)}
	if err := errors.Join(w.Message(m), w.Flush()); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Fatal(err)
	}
	if w.Message(m) == nil || w.Flush() == nil || w.Close() == nil {
		t.Error("it goes on")
	}
	if w.Message(&Message{Channel: 9}) == nil {
		t.Error("a message has no channel")
	}
}

// FuzzRead reads any bytes: with an error, and with no more memory than they have.
func FuzzRead(f *testing.F) {
	b := sample(f, 30, tenth)
	f.Add(b)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		c := bytes.Clone(b[:r.IntN(len(b))])
		c[r.IntN(len(c))] ^= byte(r.IntN(256))
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if records, err := all(b); err == nil && len(records) > len(b) {
			t.Errorf("%d records in %d bytes", len(records), len(b))
		}
	})
}
