package journal

import (
	"bytes"
	"errors"
	"slices"
)

var errPower = errors.New("power failed")

// memory is a store in memory that fails, and loses power, when it is told to. What it takes is
// durable at once, as a Store's must be.
type memory struct {
	first  uint64 // of logs[0]
	logs   []Entry
	values map[string][]byte
	calls  int // that change something
	fail   int // the call that fails, from 1 on; 0: none
}

func newMemory() *memory { return &memory{values: map[string][]byte{}} }

func (m *memory) change() error {
	if m.calls++; m.fail != 0 && m.calls >= m.fail {
		return errPower
	}
	return nil
}

// again is the store after a restart.
func (m *memory) again() *memory {
	m.fail, m.calls = 0, 0
	return m
}

func (m *memory) copy() *memory {
	c := newMemory()
	c.first, c.logs = m.first, slices.Clone(m.logs)
	for k, v := range m.values {
		c.values[k] = v
	}
	return c
}

func (m *memory) FirstIndex() (uint64, error) {
	if len(m.logs) == 0 {
		return 0, nil
	}
	return m.first, nil
}

func (m *memory) LastIndex() (uint64, error) {
	if len(m.logs) == 0 {
		return 0, nil
	}
	return m.first + uint64(len(m.logs)) - 1, nil
}

func (m *memory) GetLog(index uint64, l *Entry) error {
	if index < m.first || index >= m.first+uint64(len(m.logs)) {
		return ErrNoEntry
	}
	*l = m.logs[index-m.first]
	l.Data = bytes.Clone(l.Data)
	return nil
}

func (m *memory) StoreLog(l *Entry) error { return m.StoreLogs([]*Entry{l}) }

func (m *memory) StoreLogs(logs []*Entry) error {
	if err := m.change(); err != nil {
		return err
	}
	for _, l := range logs {
		if len(m.logs) == 0 {
			m.first = l.Index
		}
		if l.Index != m.first+uint64(len(m.logs)) {
			return errors.New("a gap in the indexes")
		}
		m.logs = append(m.logs, Entry{Index: l.Index, Data: bytes.Clone(l.Data)})
	}
	return nil
}

func (m *memory) DeleteRange(low, high uint64) error {
	if err := m.change(); err != nil {
		return err
	}
	last, _ := m.LastIndex()
	switch {
	case low > high || high < m.first || low > last:
	case low <= m.first:
		n := min(high, last) - m.first + 1
		m.first, m.logs = m.first+n, slices.Clone(m.logs[n:])
	case high >= last:
		m.logs = slices.Clone(m.logs[:low-m.first])
	default:
		return errors.New("neither a prefix nor a suffix")
	}
	return nil
}

func (m *memory) Set(key, value []byte) error {
	if err := m.change(); err != nil {
		return err
	}
	m.values[string(key)] = bytes.Clone(value)
	return nil
}

func (m *memory) Get(key []byte) ([]byte, error) { return m.values[string(key)], nil }
