package engine

import (
	"errors"
	"testing"

	"github.com/squall-go/squall/internal/journal"
)

// panicking is an engine that panics when an entry is read.
type panicking struct {
	Abandoner
	closed, abandoned int
}

func (p *panicking) GetLog(uint64, *journal.Entry) error { panic("a page that cannot be read") }
func (p *panicking) LastIndex() (uint64, error)          { return 7, nil }
func (p *panicking) Close() error                        { p.closed++; return nil }
func (p *panicking) Abandon() error                      { p.abandoned++; return nil }

// An engine that panicked keeps its locks: to close it would wait for them.
func TestAnEngineThatPanickedIsAbandonedAndNotClosed(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		p := &panicking{}
		g := &Recovering{place: "log", Engine: p}
		if panics {
			if err := g.GetLog(1, new(journal.Entry)); !errors.Is(err, ErrDamaged) {
				t.Errorf("an engine that panics: %v", err)
			}
		}
		if last, err := g.LastIndex(); last != 7 || err != nil {
			t.Error(last, err)
		}
		if err := g.Close(); err != nil || p.closed+p.abandoned != 1 || (p.abandoned == 1) != panics {
			t.Errorf("panicked: %v; closed %d times, abandoned %d times, %v", panics, p.closed, p.abandoned, err)
		}
	}
}
