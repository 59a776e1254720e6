package wire_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/wire"
)

// over is a connection that its other side has ended.
type over struct{ net.Conn }

func (over) Read([]byte) (int, error)        { return 0, io.EOF }
func (over) SetReadDeadline(time.Time) error { return nil }

// CV5: a stream that ends before its own end has come is broken, also one of which nothing has
// come: it is no empty state.
func TestAConnectionThatEndsIsNoEndOfAStream(t *testing.T) {
	c := wire.New(over{}, wire.Times{}, 1<<10)
	r := wire.NewReader(func(e *wire.Ending) (wire.Kind, []byte, error) { return c.Frame(e, nil) })
	if n, err := r.Read(make([]byte, 8)); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if r.Ended() || r.Err() == nil || r.Finish() == nil {
		t.Errorf("it counts as read to its end: %v, %v", r.Ended(), r.Err())
	}
}
