package logwire

import "github.com/squall-go/squall/internal/wire"

// snapshotReader is a stream that ends its session when it is closed.
type snapshotReader struct {
	*wire.Reader
	end func()
}

// Close implements io.Closer.
func (s *snapshotReader) Close() error {
	s.end()
	return nil
}
