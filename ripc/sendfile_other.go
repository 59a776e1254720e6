//go:build !linux

package ripc

import (
	"errors"
	"net"
	"os"
)

const canSendFile = false

func sendFile(*net.TCPConn, *os.File, int64, int) (int, error) { return 0, errors.ErrUnsupported }
