package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/squall-go/squall/internal/crc"
)

// memo is what a process has to remember, by key, on a simulated disk: a file that is replaced as a whole. Put is atomic, and durable as
// it returns.
//
//	file   | count 4 | length of key 4, key, length of value 4, value … | CRC-32C of all before 4 |
type memo struct {
	disk   *disk
	dir    string
	values map[string][]byte
}

func (m *memo) file() string { return strings.TrimPrefix(m.dir+"/meta", "/") }

// fresh is the file that takes the place of another one.
func (m *memo) fresh() string { return m.file() + ".new" }

// errMemo is what is said of a file that is not what was written.
var errMemo = errors.New("damaged")

// openMemo reads what the processes before have put down in a directory.
func openMemo(d *disk, dir string) (*memo, error) {
	m := &memo{disk: d, dir: dir, values: map[string][]byte{}}
	data, err := d.read(m.file())
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = m.parse(data)
	}
	if err == nil {
		err = or(d.sync(m.file()), d.syncDir(dir)) // the process that wrote it may have ended before that
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", m.file(), err)
	}
	return m, nil
}

func (m *memo) parse(data []byte) error {
	n := len(data) - 4
	if n < 4 || crc.Of(data[:n]) != binary.LittleEndian.Uint32(data[n:]) {
		return errMemo
	}
	count, rest := binary.LittleEndian.Uint32(data), data[4:n]
	for range count {
		var key, value []byte
		key, rest = cutBytes(rest)
		value, rest = cutBytes(rest)
		m.values[string(key)] = value
	}
	return nil
}

// cutBytes takes a length and so many bytes. What checks is what was written.
func cutBytes(data []byte) (first, rest []byte) {
	n := binary.LittleEndian.Uint32(data)
	return data[4 : 4+n : 4+n], data[4+n:]
}

// Get returns what was put under a key; nil: nothing.
func (m *memo) Get(key string) ([]byte, error) { return m.values[key], nil }

// Put changes some values, all or none of them; nil takes one away.
func (m *memo) Put(changes map[string][]byte) error {
	values := maps.Clone(m.values)
	for key, value := range changes {
		if values[key] = slices.Clone(value); value == nil {
			delete(values, key)
		}
	}
	if err := replaceFile(m.disk, m.dir, m.file(), m.fresh(), memoText(values)); err != nil {
		return fmt.Errorf("%q: %w", m.file(), err)
	}
	m.values = values
	return nil
}

func memoText(values map[string][]byte) []byte {
	keys, size := make([]string, 0, len(values)), 8
	for key, value := range values {
		keys, size = append(keys, key), size+8+len(key)+len(value)
	}
	slices.Sort(keys)
	text := binary.LittleEndian.AppendUint32(make([]byte, 0, size), uint32(len(values)))
	for _, key := range keys {
		text = binary.LittleEndian.AppendUint32(text, uint32(len(key)))
		text = append(text, key...)
		text = binary.LittleEndian.AppendUint32(text, uint32(len(values[key])))
		text = append(text, values[key]...)
	}
	return binary.LittleEndian.AppendUint32(text, crc.Of(text))
}
