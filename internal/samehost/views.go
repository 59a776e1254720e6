package samehost

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of what is kept mapped without being used (E4). It keeps alive what its owner may have
// dropped.
const (
	maxIdleViews = 32
	idleViewTime = idleTime / 2
)

// Views are the segments of others that this process has mapped. Its methods may be called from any
// goroutine.
type Views struct {
	mu     sync.Mutex
	closed bool
	open   []*mapping
	timer  *time.Timer
}

// mapping is one of them.
type mapping struct {
	owner  string
	id     ID
	mem    []byte
	users  int
	idleAt time.Time // if it has no users
}

// View is some bytes of another process. They can be read, and not be written.
type View struct {
	views *Views
	of    *mapping
	bytes []byte
}

// NewViews makes an empty set.
func NewViews() *Views { return &Views{} }

// Bytes is what is in view, until Close. The owner may change it at any time; when it does not is
// said elsewhere.
func (v *View) Bytes() []byte { return v.bytes }

// Open shows the bytes [p.Offset, p.Offset+size) of a segment whose owner has a socket of that
// name.
func (vs *Views) Open(ctx context.Context, owner string, p Place, size int64) (*View, error) {
	m := vs.hold(owner, p.ID)
	if m == nil {
		mem, err := ask(ctx, owner, p.ID)
		if err != nil {
			return nil, fmt.Errorf("shared memory of @%s: %w", owner, err)
		}
		if m, err = vs.add(&mapping{owner: owner, id: p.ID, mem: mem}); err != nil {
			return nil, err
		}
	}
	v := &View{views: vs, of: m}
	if err := v.show(p.Offset, size); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// OpenMapped is Open for a segment that is mapped already. It does not wait, and returns nil if the
// segment is not mapped or the bytes do not lie in it: Open says why.
func (vs *Views) OpenMapped(owner string, p Place, size int64) *View {
	m := vs.hold(owner, p.ID)
	if m == nil {
		return nil
	}
	v := &View{views: vs, of: m}
	if err := v.show(p.Offset, size); err != nil {
		v.Close()
		return nil
	}
	return v
}

// show sets the bytes of a view, if the segment has them.
func (v *View) show(offset, size int64) error {
	mem := v.of.mem
	if size < 0 || offset < 0 || offset > int64(len(mem)) || size > int64(len(mem))-offset {
		return fmt.Errorf("%w: bytes [%d, %d) of a segment of %d", ErrMalformed, offset, offset+size, len(mem))
	}
	v.bytes = mem[offset:][:size:size]
	return nil
}

// hold finds a segment that is mapped already.
func (vs *Views) hold(owner string, id ID) *mapping {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	i := vs.find(owner, id)
	if i < 0 {
		return nil
	}
	vs.open[i].users++
	return vs.open[i]
}

func (vs *Views) find(owner string, id ID) int {
	return slices.IndexFunc(vs.open, func(m *mapping) bool { return m.id == id && m.owner == owner })
}

// add keeps a mapping, unless another goroutine was faster with the same one.
func (vs *Views) add(m *mapping) (*mapping, error) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if i := vs.find(m.owner, m.id); i >= 0 || vs.closed {
		unmap(m.mem)
		if vs.closed {
			return nil, ErrClosed
		}
		m = vs.open[i]
	} else {
		vs.open = append(vs.open, m)
	}
	m.users++
	return m, nil
}

// Close ends a view: its bytes must not be touched any more. The mapping is kept for a while, since
// the next message often lies there, too.
func (v *View) Close() {
	vs := v.views
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v.bytes = nil
	if v.of.users--; v.of.users == 0 {
		v.of.idleAt = time.Now()
		vs.trim(v.of.idleAt)
	}
}

// trim unmaps what is too much, the longest idle first.
func (vs *Views) trim(now time.Time) {
	idle, bytes := vs.idle()
	for len(idle) > 0 {
		m := idle[0]
		if !vs.closed && len(idle) <= maxIdleViews && bytes <= TotalMemory()/idleShare && now.Sub(m.idleAt) < idleViewTime {
			break
		}
		idle, bytes = idle[1:], bytes-len(m.mem)
		vs.open = slices.DeleteFunc(vs.open, func(o *mapping) bool { return o == m })
		unmap(m.mem)
	}
	switch {
	case len(idle) == 0:
	case vs.timer == nil:
		vs.timer = time.AfterFunc(idleViewTime, vs.tidy)
	default:
		vs.timer.Reset(idle[0].idleAt.Add(idleViewTime).Sub(now))
	}
}

// idle are the mappings without users, the longest idle first, and their bytes.
func (vs *Views) idle() (all []*mapping, bytes int) {
	for _, m := range vs.open {
		if m.users == 0 {
			all = append(all, m)
			bytes += len(m.mem)
		}
	}
	slices.SortStableFunc(all, func(a, b *mapping) int { return a.idleAt.Compare(b.idleAt) })
	return all, bytes
}

// tidy is the timer's.
func (vs *Views) tidy() {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.trim(time.Now())
}

// Close unmaps what is idle. Views that are held stay until they are closed (E5).
func (vs *Views) Close() {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.closed = true
	if vs.timer != nil {
		vs.timer.Stop()
	}
	vs.trim(time.Now())
}
