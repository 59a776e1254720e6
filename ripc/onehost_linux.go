package ripc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/internal/shm"
	"github.com/squall-go/squall/internal/wait"
)

// OneHost finds services on this host, without a server: each has an abstract unix socket, whose
// name follows from its id, and the process that has the socket says where it is. A name belongs to
// the process that took it first, as long as it keeps it; processes of other users are not
// believed. Endpoints find each other if they name the same domain, which may be empty.
func OneHost(domain string) Resolver { return oneHost{domain} }

// servicePrefix begins the names of the sockets.
const servicePrefix = "squall-service-"

type oneHost struct{ domain string }

// socket is the name of a service's socket.
func (o oneHost) socket(id ID) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "squall service\x00%d\x00%s\x00%s", os.Getuid(), o.domain, string(id)))
	return servicePrefix + hex.EncodeToString(sum[:16])
}

// Resolve implements Resolver.
func (o oneHost) Resolve(ctx context.Context, id ID) (Place, error) {
	var place Place
	conn, err := samehost.Dial(ctx, o.socket(id))
	if errors.Is(err, syscall.ECONNREFUSED) {
		return place, fmt.Errorf("%w: no process on this host has %s", ErrNoService, id)
	}
	if err != nil {
		return place, err
	}
	defer conn.Close()
	if process, ours := samehost.Peer(conn, os.Getuid()); !ours {
		return place, fmt.Errorf("%w: %s, which has %s, is another user's", ErrRefused, process, id)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn.SetDeadline(time.Now().Add(handshakeTime))
	if err := shm.Hear(conn, &place); err != nil {
		return place, fmt.Errorf("%w: the process that had %s says nothing: %w", ErrNoService, id, err)
	}
	return place, nil
}

// Publish implements Resolver.
func (o oneHost) Publish(ctx context.Context, id ID, at Place) (func() error, error) {
	l, err := o.listen(ctx, id)
	if err != nil {
		return nil, err
	}
	var done sync.WaitGroup
	done.Go(func() {
		samehost.Accept(l, func(conn *net.UnixConn) {
			conn.SetDeadline(time.Now().Add(time.Second)) // a packet waits only if the socket's buffer is full, and it is empty
			shm.Send(conn, LocalService{Service: id, Domain: o.domain, Place: at})
			conn.Close()
		})
	})
	return func() error {
		err := errors.Join(shutDown(l), l.Close())
		done.Wait()
		return err
	}, nil
}

// listen takes the socket of a service. A program that the process which had it starts just then
// has the socket, too, until it runs. Nobody can connect to that any more (shutDown), so listen
// waits until it is gone.
func (o oneHost) listen(ctx context.Context, id ID) (*net.UnixListener, error) {
	for pause := (wait.Backoff{First: time.Millisecond, Longest: 16 * time.Millisecond}); ; {
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@" + o.socket(id), Net: "unixpacket"})
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		conn, err := samehost.Dial(ctx, o.socket(id))
		if err == nil {
			err = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) || pause.Wait(ctx) != nil {
			return nil, fmt.Errorf("%w: another process of this host has %s", ErrRefused, id)
		}
	}
}

// shutDown has a socket refuse connections, also where another process has it.
func shutDown(l *net.UnixListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	return errors.Join(err, failed)
}
