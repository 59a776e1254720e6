//go:build !linux

package tcp

import (
	"net"

	"github.com/squall-go/squall/fabric"
)

// newSocket puts goroutines between a connection and the loop: here the loop has nothing to poll
// sockets with.
func newSocket(conn net.Conn, parker *fabric.Parker) (socket, error) {
	return newStream(conn, parker), nil
}
