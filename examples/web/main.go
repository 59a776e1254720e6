// Command web is a static file server that is addressed by a name, and a client. The server can be
// restarted, or be taken over by another process, while clients ask: no request fails.
//
//	go run ./examples/web serve -dir docs          # in one terminal
//	go run ./examples/web serve -dir docs          # in a second one: it waits
//	go run ./examples/web get http://web/guide.md  # in a third one
//
// Interrupt the first server: it gives the name back, answers what it received, and ends. The
// second one goes on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/ripchttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const usage = `usage: web serve [-dir DIR] [-name NAME] [-domain DOMAIN]
       web get [-domain DOMAIN] http://NAME/PATH`

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	domain := flags.String("domain", "", "services of other domains are not found")
	dir := flags.String("dir", ".", "what is served")
	name := flags.String("name", "web", "the service")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	cfg := ripc.Config{Resolver: ripc.OneHost(*domain), RingBytes: 256 << 10}
	switch {
	case args[0] == "serve" && flags.NArg() == 0:
		return serve(ctx, cfg, ripc.ID(*name), *dir, out)
	case args[0] == "get" && flags.NArg() == 1:
		return get(ctx, cfg, flags.Arg(0), out)
	}
	return errors.New(usage)
}

// drainTime is how long a server that ends answers what it received.
const drainTime = 10 * time.Second

// serve serves a directory until ctx ends.
func serve(ctx context.Context, cfg ripc.Config, name ripc.ID, dir string, out io.Writer) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	e, err := ripc.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	files := newFiles(e, root)
	defer files.kept.Close()
	service, err := takeOver(ctx, e, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving %s as http://%s/\n", dir, name)
	server := &ripchttp.Server{Handler: files}
	drained := make(chan error, 1)
	go func() {
		<-ctx.Done()
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		drained <- server.Shutdown(late)
	}()
	if err := server.Serve(service); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}

// takeOver registers a service, as soon as no other process has it.
func takeOver(ctx context.Context, e *ripc.Endpoint, name ripc.ID) (*ripc.Service, error) {
	for {
		s, err := e.Register(ctx, name)
		if err == nil || !errors.Is(err, ripc.ErrRefused) {
			return s, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// get prints what is at a URL.
func get(ctx context.Context, cfg ripc.Config, url string, out io.Writer) (err error) {
	e, err := ripc.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	me, err := e.Register(ctx, "")
	if err != nil {
		return err
	}
	transport := &ripchttp.Transport{Service: me}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	_, err = io.Copy(out, response.Body)
	return err
}
