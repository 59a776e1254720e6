package ripc

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

const canSendFile = true

// sendFile has the system send n bytes of a file. It returns how many it sent: fewer if the file
// ends before.
func sendFile(conn *net.TCPConn, file *os.File, offset int64, n int) (sent int, err error) {
	to, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	from, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	once := func(socket uintptr) (done bool) {
		controlled := from.Control(func(fd uintptr) { done, failed = sendSome(int(socket), int(fd), &offset, n, &sent) })
		if controlled != nil {
			failed = controlled
		}
		return done || controlled != nil
	}
	if err := to.Write(once); err != nil {
		return sent, err
	}
	return sent, failed
}

// sendSome sends until all is sent, the file ends, or the socket takes no more: then it is not
// done.
func sendSome(socket, file int, offset *int64, n int, sent *int) (done bool, err error) {
	for *sent < n {
		k, err := unix.Sendfile(socket, file, offset, n-*sent)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return false, nil
		case err != nil:
			return true, os.NewSyscallError("sendfile", err)
		case k == 0:
			return true, nil
		default:
			*sent += k
		}
	}
	return true, nil
}
