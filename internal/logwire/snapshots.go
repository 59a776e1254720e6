package logwire

import (
	"io"

	"github.com/squall-go/squall/persist"
)

// snapshots is the part of a log that deals with its snapshot.
type snapshots interface {
	OpenSnapshot() (at persist.Record, r io.ReadCloser, err error)
	Install(at persist.Record, r io.Reader) error
}

func snapshotsOf(log *persist.Log) snapshots {
	s, ok := any(log).(snapshots)
	if !ok {
		return none{}
	}
	return s
}

// none is a log that keeps no snapshots.
type none struct{}

func (none) OpenSnapshot() (at persist.Record, r io.ReadCloser, err error) {
	return at, nil, persist.ErrNotFound
}
func (none) Install(persist.Record, io.Reader) error { return persist.ErrNotFound }
