package ripc

import (
	"context"
	"io"
	"net"
	"net/rpc"
)

// sockets carry messages over one connection.
type sockets struct {
	spec     spec
	listener net.Listener
	conn     net.Conn
	body     []byte
}

func (s *sockets) network() (network, addr string) {
	if s.spec.Fabric == "tcp" {
		return "tcp", "127.0.0.1:0"
	}
	return "unix", "" // the kernel chooses a name that is no file
}

func (s *sockets) listen() (addr string, err error) {
	if s.listener, err = net.Listen(s.network()); err != nil {
		return "", err
	}
	return s.listener.Addr().String(), nil
}

func (s *sockets) connect(ctx context.Context, addr string) (err error) {
	network, _ := s.network()
	s.body = touched(s.spec.Size)
	s.conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
	return err
}

func (s *sockets) serve() {
	conn, err := s.listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	body := touched(s.spec.Size)
	for {
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		if s.spec.isLong() {
			body = body[:1] // it says that all came
		}
		_, err := conn.Write(body)
		if body = body[:s.spec.Size]; err != nil {
			return
		}
	}
}

func (s *sockets) once(context.Context, int) error {
	if _, err := s.conn.Write(s.body); err != nil {
		return err
	}
	if s.spec.isLong() {
		_, err := io.ReadFull(s.conn, s.body[:1])
		return err
	}
	_, err := io.ReadFull(s.conn, s.body)
	return err
}

func (s *sockets) received(context.Context) (int, error) { return 0, nil }

func (s *sockets) close() (err error) {
	if s.conn != nil {
		err = s.conn.Close()
	}
	if s.listener != nil {
		s.listener.Close()
	}
	return err
}

// netRPC calls with package net/rpc.
type netRPC struct {
	spec   spec
	plain  sockets
	client *rpc.Client
	body   []byte
}

// Echo is what net/rpc calls.
type Echo struct{}

// Echo returns its argument.
func (Echo) Echo(body []byte, reply *[]byte) error {
	*reply = body
	return nil
}

func (n *netRPC) listen() (string, error) {
	n.plain.spec = n.spec
	return n.plain.listen()
}

func (n *netRPC) connect(ctx context.Context, addr string) error {
	n.plain.spec = n.spec
	if err := n.plain.connect(ctx, addr); err != nil {
		return err
	}
	n.client, n.body = rpc.NewClient(n.plain.conn), make([]byte, n.spec.Size)
	return nil
}

func (n *netRPC) serve() {
	server := rpc.NewServer()
	if err := server.Register(Echo{}); err != nil {
		return
	}
	if conn, err := n.plain.listener.Accept(); err == nil {
		server.ServeConn(conn)
	}
}

func (n *netRPC) once(context.Context, int) error {
	var reply []byte
	return n.client.Call("Echo.Echo", n.body, &reply)
}

func (n *netRPC) received(context.Context) (int, error) { return 0, nil }

func (n *netRPC) close() error {
	if n.client != nil {
		n.client.Close() // and with it the connection
		return nil
	}
	return n.plain.close()
}
