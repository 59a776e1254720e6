package ripc

import (
	"context"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// words are two words in memory that both processes map, on lines of their own. Each process stores one and looks at the other until
// it changes: no message can be faster there and back.
type words struct {
	segment *bench.Segment // nil in the process that did not make it
	mem     []byte
	count   uint64
	closed  atomic.Bool
}

const wordsBytes = 4096

func (w *words) word(line int) *uint64 { return (*uint64)(unsafe.Pointer(&w.mem[128*line])) }

func (w *words) listen() (addr string, err error) {
	if w.segment, err = bench.NewSegment(wordsBytes); err != nil {
		return "", err
	}
	return w.segment.Path, w.connect(context.Background(), w.segment.Path)
}

func (w *words) connect(_ context.Context, addr string) (err error) {
	w.mem, err = bench.MapSegment(addr, wordsBytes)
	return err
}

func (w *words) serve() {
	for k := uint64(1); !w.closed.Load(); {
		if atomic.LoadUint64(w.word(0)) == k {
			atomic.StoreUint64(w.word(1), k)
			k++
		}
	}
}

func (w *words) once(ctx context.Context, _ int) error {
	w.count++
	atomic.StoreUint64(w.word(0), w.count)
	for k := 1; atomic.LoadUint64(w.word(1)) != w.count; k++ {
		if k%10000 == 0 {
			if runtime.Gosched(); ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func (w *words) received(context.Context) (int, error) { return 0, nil }

// close leaves the mapping to the end of the process, which is near: the other goroutine may look at it.
func (w *words) close() error {
	w.closed.Store(true)
	if w.segment == nil {
		return nil
	}
	return w.segment.Close()
}
