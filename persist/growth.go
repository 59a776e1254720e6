package persist

import (
	"os"
	"path/filepath"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/persist/internal/engine"
)

// Growth is how much a log has after its snapshot, or after its start if it has none.
type Growth struct {
	Records       uint64
	Bytes         int64 // of the blocks with these records
	SnapshotBytes int64 // of the snapshot; 0: there is none
}

// Growth returns how much of the log there is after its snapshot. It reads no record.
func (l *Log) Growth() (g Growth, err error) {
	err = l.look(func(b *journal.Book) error {
		g.Records = b.Count()
		if h, ok := b.First(); ok && g.Records > 0 {
			g.Bytes = int64(b.End().Bytes - h.Offset)
		}
		return nil
	})
	if info, err := os.Stat(filepath.Join(l.dir, engine.SnapshotFile)); err == nil {
		g.SnapshotBytes = info.Size()
	}
	return g, err
}
