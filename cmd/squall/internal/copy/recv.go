package copy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/fabric/port"
)

// usualPort is where receivers listen if nothing else is said.
const usualPort = "7411"

// receiveOptions are the flags of "squall recv".
type receiveOptions struct {
	listen   string
	forever  bool
	insecure bool
	rack     string
	sync     bool
	json     bool
	quiet    bool
	secure   securityFlags
}

// NewReceiveCommand returns the command "recv".
func NewReceiveCommand() *cobra.Command {
	var o receiveOptions
	cmd := &cobra.Command{
		Use:   "recv [flags] DIR",
		Short: "Receive files that \"squall cp\" pushes",
		Long: `Recv prints its address, waits for a push, and puts the files into DIR: all of them when all are here and right at every
receiver, or none. Until then they are in a hidden directory inside DIR. A push that it refuses, because a file exists or the disk is too
small, does not count: it goes on waiting.

Who reaches the port may write into DIR. So without further flags only this machine reaches it. With --token-file, pushers must have the
same token; who listens on the network can read the files, but nobody can write or change any. With --tls-cert, --tls-key and --tls-ca
everything is encrypted, and pushers need a certificate. Nothing is ever written outside DIR.`,
		Example: `  squall recv inbox                                     # from this machine
  squall recv --token-file token --forever /srv/images  # from any machine with the token, push after push
  squall recv --token-file token --rack b12 /srv/images # so that blocks cross between racks as rarely as possible
  squall recv --tls-cert me.pem --tls-key me.key --tls-ca ca.pem --listen :9000 .`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			who, err := o.complete(cmd.Context())
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), args[0], who, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.declare(cmd.Flags())
	return cmd
}

func (o *receiveOptions) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "", fmt.Sprintf("`address` to listen on, port 0 for any free one (default :%s, or 127.0.0.1:%s if only this machine may push)",
		usualPort, usualPort))
	f.BoolVar(&o.forever, "forever", false, "wait for one push after the other, not for one alone")
	f.StringVar(&o.rack, "rack", "", "`name` of the rack that this machine is in")
	f.BoolVar(&o.sync, "sync", false, "wait until everything is on the disk before saying that it is received")
	f.BoolVar(&o.json, "json", false, "print one JSON object a line: first the address, then each push")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
	o.secure.declare(f)
	f.BoolVar(&o.insecure, "insecure", false, "without token and certificate, let every machine write into DIR")
}

// complete loads what is to be shown, and refuses to listen to strangers by mistake.
func (o *receiveOptions) complete(ctx context.Context) (security, error) {
	who, err := o.secure.load()
	if err != nil {
		return who, err
	}
	known := who.token != nil || who.tls != nil
	if o.insecure && known {
		return who, errors.New("--insecure: does not go with a token or a certificate")
	}
	if o.listen == "" {
		o.listen = net.JoinHostPort("127.0.0.1", usualPort)
		if known || o.insecure {
			o.listen = ":" + usualPort
		}
	}
	local, err := loopback(ctx, o.listen)
	if err != nil {
		return who, fmt.Errorf("--listen %s: %w", o.listen, err)
	}
	if !local && !known && !o.insecure {
		return who, fmt.Errorf("--listen %s: other machines reach that; give --token-file or the three --tls flags, or --insecure to let every process write", o.listen)
	}
	return who, nil
}

// server takes pushes, one at a time.
type server struct {
	o         *receiveOptions
	who       security
	root      *os.Root
	path      string
	port      *port.Port
	out, errs io.Writer
	sessions  sync.WaitGroup
	busy      sync.Mutex // held by the session that has a push
	ended     chan ended // of pushes that began

	saying sync.Mutex
}

// ended is how a push ended.
type ended struct {
	result Received
	err    error
}

// run receives until a push is done, or for ever.
func (o *receiveOptions) run(ctx context.Context, dir string, who security, out, errs io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := sweep(root); err != nil {
		return fmt.Errorf("what an earlier command left in %s: %w", dir, err)
	}
	s := &server{o: o, who: who, root: root, path: dir, out: out, errs: errs, ended: make(chan ended)}
	if s.port, err = port.Open(ctx, port.Config{Addr: o.listen, TLS: who.tls, OnReject: s.rejected}); err != nil {
		return err
	}
	defer s.sessions.Wait()
	defer cancel()
	defer s.port.Close()
	s.port.Handle(port.KindCopy, func(conn net.Conn) { s.serve(ctx, conn) })
	if err := s.greet(); err != nil {
		return err
	}
	for {
		select {
		case e := <-s.ended:
			if err := s.report(e); err != nil || !o.forever {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// greet prints the address.
func (s *server) greet() error {
	if s.o.json {
		return show.JSONLine(s.out, struct {
			Listening string `json:"listening"`
			Directory string `json:"directory"`
		}{s.port.Addr(), s.path})
	}
	_, err := fmt.Fprintf(s.out, "waiting for a push to %s\n", s.port.Addr())
	return err
}

// report prints how a push ended. With --forever a failure is not the command's.
func (s *server) report(e ended) error {
	e.result.BytesPerSecond = perSecond(e.result.Bytes, e.result.Seconds)
	if e.err != nil {
		e.result.Error = e.err.Error()
	}
	switch {
	case s.o.json:
		if err := show.JSONLine(s.out, e.result); err != nil {
			return err
		}
	case e.err == nil:
		if _, err := io.WriteString(s.out, e.result.text()); err != nil {
			return err
		}
	}
	if e.err != nil && s.o.forever {
		s.say("%s: %v", e.result.From, e.err)
		return nil
	}
	return e.err
}

func (s *server) say(format string, args ...any) {
	s.saying.Lock()
	defer s.saying.Unlock()
	fmt.Fprintf(s.errs, "squall recv: "+format+"\n", args...)
}

// rejected says why a connection was rejected, unless the peer ended it: the session then says what
// is missing.
func (s *server) rejected(r port.Rejection) {
	if r.Reason != port.Broken {
		s.say("%v", r)
	}
}

// serve plays one session. If no file began to come, nothing but a line tells of it.
func (s *server) serve(ctx context.Context, c net.Conn) {
	s.sessions.Add(1)
	defer s.sessions.Done()
	from := c.RemoteAddr().String()
	x := session{server: s}
	err := x.run(ctx, c)
	x.bar.End()
	if x.claimed {
		s.busy.Unlock()
	}
	if x.result.started.IsZero() {
		if err != nil && ctx.Err() == nil {
			s.say("%s: %v", from, err)
		}
		return
	}
	x.result.From = from
	select {
	case s.ended <- ended{x.result, err}:
	case <-ctx.Done():
	}
}
