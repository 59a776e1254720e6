package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/ripchttp"
)

func TestMain(m *testing.M) {
	testutil.BecomeProgram(main)
	os.Exit(m.Run())
}

// end has a server end by itself.
func end(t *testing.T, server *testutil.Program) {
	t.Helper()
	server.Signal(syscall.SIGTERM)
	if _, errs := server.End(); errs != "" {
		t.Error(errs)
	}
}

// Servers are taken over, restarted and killed while clients ask, and every request is answered
// with the right bytes.
func TestNoRequestFailsWhileTheServerMoves(t *testing.T) {
	dir := t.TempDir()
	pages := map[string][]byte{"index.html": []byte("<html>hello</html>"), "long.bin": make([]byte, 300<<10)}
	for i := range pages["long.bin"] {
		pages["long.bin"][i] = byte(i * i >> 4)
	}
	for name, content := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	domain := fmt.Sprintf("%s %d", t.Name(), os.Getpid())
	e, err := ripc.Open(t.Context(), ripc.Config{Resolver: ripc.OneHost(domain), Transport: ripc.TransportSHM})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	me, err := e.Register(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	transport := &ripchttp.Transport{Service: me, RetryTimeout: 20 * time.Second}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var asked atomic.Int64
	ask := func(name string) error {
		response, err := client.Get("http://web/" + name)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != http.StatusOK || !bytes.Equal(got, pages[name])) {
			err = fmt.Errorf("%s: %s, %d bytes that are others", name, response.Status, len(got))
		}
		asked.Add(1)
		return err
	}

	start := func() *testutil.Program { return testutil.StartProgram(t, "serve", "-domain", domain, "-dir", dir) }
	server := start()
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	for range 3 {
		for name := range pages {
			asking.Go(func() {
				for ctx.Err() == nil {
					if err := ask(name); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	more := func() { // until every client was answered several times
		for want := asked.Load() + 60; asked.Load() < want && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	more()
	for round := range 6 {
		old := server
		switch round % 3 {
		case 0: // another process waits for the name
			server = start()
			end(t, old)
		case 1: // there is a time without a server
			end(t, old)
			server = start()
		case 2:
			old.Kill()
			server = start()
		}
		more()
	}
	stop()
	asking.Wait()
	end(t, server)
	t.Logf("%d requests", asked.Load())
}

func TestAClientPrintsAFile(t *testing.T) {
	domain := fmt.Sprintf("%s %d", t.Name(), os.Getpid())
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := run(ctx, []string{"serve", "-domain", domain}, io.Discard); err != nil {
			t.Error(err)
		}
	})
	var out bytes.Buffer
	err := run(ctx, []string{"get", "-domain", domain, "http://web/main.go"}, &out)
	if want, readErr := os.ReadFile("main.go"); err != nil || readErr != nil || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%d bytes, %v, %v", out.Len(), err, readErr)
	}
	if err := run(ctx, []string{"get", "-domain", domain, "http://web/../../go.mod"}, &out); err == nil {
		t.Error("a file outside of the directory is served")
	}
	stop()
	serving.Wait()
}
