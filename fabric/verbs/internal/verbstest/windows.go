//go:build linux

package verbstest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/ripc"
)

// Windows has an endpoint of package ripc send a long message into a window of another one, call it
// with a return buffer, and give up a call, through a stream, and leaves nothing open.
func Windows(t *testing.T, of Transports, size int) {
	before := fabrictest.Resources()
	t.Run("send", func(t *testing.T) { windows(t, of, size) })
	fabrictest.Settle(t, before)
}

func windows(t *testing.T, of Transports, size int) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var made atomic.Int32
	var services [2]*ripc.Service
	for i, id := range []ripc.ID{"server", "client"} {
		e, err := ripc.Open(ctx, ripc.Config{
			Listen: "127.0.0.1:0", Transport: ripc.TransportTCP, Resolver: ripc.OneHost(t.Name()), LongTransport: counted{of(t, order.Rank(i)).(fabric.Streams), &made},
		})
		must(err)
		defer e.Close()
		services[i], err = e.Register(ctx, id)
		must(err)
	}
	server, client := services[0], services[1]
	window, want := make([]byte, size), make([]byte, size)
	rand.NewChaCha8([32]byte{37}).Read(want)
	must(server.Post(ripc.NewWindow(window)))
	must(client.SendLong(ctx, client.To("server"), ripc.NewBody(want)))
	m, err := server.Receive(ctx)
	must(err)
	m.Release()
	if !bytes.Equal(window, want) {
		t.Error("the window differs from the message")
	}
	into, gaveUp := make([]byte, size), errors.New("the caller gives up")
	for _, patient := range []bool{false, true} {
		call, end := context.WithCancelCause(ctx)
		done := make(chan error, 1)
		go func() {
			m, err := client.CallLong(call, client.To("server"), into, ripc.Body{})
			m.Release()
			done <- err
		}()
		m, err := server.Receive(ctx)
		must(err)
		if !patient {
			end(gaveUp)
		}
		replied := m.ReplyLong(ctx, ripc.NewBody(want))
		m.Release()
		if err := <-done; patient && (err != nil || replied != nil || !bytes.Equal(into, want)) || !patient && !errors.Is(err, gaveUp) {
			t.Errorf("patient: %v, %v, %v", patient, err, replied)
		}
		end(nil)
	}
	if made.Load() != 2 {
		t.Errorf("%d ends of streams were made, not 2", made.Load())
	}
}
