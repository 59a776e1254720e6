package boltlog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/journal"
)

// What raft-boltdb 2.3.1 wrote, of entries with each width of a length and of an index.
func TestEntriesAreThoseOfRaftBoltDB(t *testing.T) {
	t.Parallel()
	const begin, index, end = "\x86\xaaAppendedAt\xaf\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xa4Data",
		"\xaaExtensions\xc0\xa5Index", "\xa4Term\x00\xa4Type\x00"
	for _, x := range []struct {
		index          uint64
		bytes          int
		length, number string
	}{
		{1, 0, "\xa0", "\x01"},
		{127, 31, "\xbf", "\x7f"},
		{128, 32, "\xda\x00\x20", "\xcc\x80"},
		{255, 255, "\xda\x00\xff", "\xcc\xff"},
		{256, 256, "\xda\x01\x00", "\xcd\x01\x00"},
		{65535, 65535, "\xda\xff\xff", "\xcd\xff\xff"},
		{65536, 65536, "\xdb\x00\x01\x00\x00", "\xce\x00\x01\x00\x00"},
		{1<<32 - 1, 70000, "\xdb\x00\x01\x11\x70", "\xce\xff\xff\xff\xff"},
		{1 << 32, 1 << 20, "\xdb\x00\x10\x00\x00", "\xcf\x00\x00\x00\x01\x00\x00\x00\x00"},
	} {
		data := strings.Repeat("d", x.bytes)
		value := []byte(begin + x.length + data + index + x.number + end)
		if got := encode(nil, &journal.Entry{Index: x.index, Data: []byte(data)}); !bytes.Equal(got, value) {
			t.Errorf("entry %d of %d bytes is stored as %.120q", x.index, x.bytes, got)
		}
		if got, ok := decode(x.index, value); !ok || string(got) != data {
			t.Errorf("entry %d of %d bytes is read as %d bytes, %v", x.index, x.bytes, len(got), ok)
		}
		if _, ok := decode(x.index+1, value); ok {
			t.Errorf("entry %d is read as the one after it", x.index)
		}
	}
}

// FuzzDecode gives the decoder any value: it reads what encode writes, and nothing else.
func FuzzDecode(f *testing.F) {
	for _, n := range []int{0, 31, 32, 70000} {
		value := encode(nil, &journal.Entry{Index: uint64(n), Data: make([]byte, n)})
		f.Add(uint64(n), value)
		f.Add(uint64(n), value[:len(head)+1])
		f.Add(uint64(n), value[len(head):])
		f.Add(uint64(n), append(value[:len(head)+1:len(head)+1], value[len(value)-len(inner)-len(tail)-1:]...))
	}
	f.Fuzz(func(t *testing.T, index uint64, value []byte) {
		if data, ok := decode(index, value); ok && !bytes.Equal(value, encode(nil, &journal.Entry{Index: index, Data: data})) {
			t.Errorf("%.200q is read as %.200q", value, data)
		}
		if data, ok := decode(index, encode(nil, &journal.Entry{Index: index, Data: value})); !ok || !bytes.Equal(data, value) {
			t.Errorf("%.200q is read again as %.200q, %v", value, data, ok)
		}
	})
}
