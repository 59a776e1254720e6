//go:build !linux

package auto

import (
	"errors"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/order"
)

// sharer offers no shared memory here: it needs memfd, which is Linux's.
type sharer struct{}

func hostID() string { return "" }

func (s *sharer) listen(func(port.Rejection)) error { return errors.ErrUnsupported }

func (s *sharer) name() string { return "" }
func (s *sharer) absent()      {}
func (s *sharer) close() error { return nil }

func (s *sharer) ownRow(_ bool, n int) (row, func() error, error) { return heapRow(n) }

func (s *sharer) connect(*connecting, []order.Rank, row) {}
