package fabric

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/squall-go/squall/order"
)

// Transport makes links between hosts in another way than TCP. A program that wants one imports it
// and puts it into its configuration, because it may need what not every program can have: a
// device, or a C library.
type Transport interface {
	// Open makes what the links of one table share. The own row stays where it is until Links is
	// closed.
	Open(spec *Spec, own []byte) (Links, error)
}

// Links makes the links of one table. Any goroutine may call Connect.
type Links interface {
	// Name is that of the links. Two members use the transport if both have one of this name.
	Name() string
	// Connect makes the link to a peer over a connection on which both proved who they are and agreed
	// on the transport. If it succeeds the connection is the link's. An error that wraps ErrRefused
	// says that there will be no such link: the peer got the same answer, and the connection is as it
	// was. It returns soon after ctx has ended.
	Connect(ctx context.Context, conn net.Conn, peer order.Rank) (Link, error)
	// Close is called by the table when all links are closed.
	Close() error
}

// Streams is a Transport that also makes streams of bytes, which carry what is not a row: the
// blocks of large messages of package rdmc, the bodies of long ones of package ripc.
type Streams interface {
	// Name is that of the streams. Two processes use them if both have some of this name.
	Name() string
	// Stream opens a stream over an authenticated connection whose ends have agreed to use one. On
	// success the stream owns the connection. If the error wraps ErrRefused, the peer was refused as
	// well, and the connection is unchanged. After Close no call of the stream blocks; Close gives
	// written bytes a short time to arrive.
	Stream(ctx context.Context, conn net.Conn) (Stream, error)
}

// Stream is a connection that carries bytes in both directions. Its methods are those of net.Conn.
type Stream interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}
