package ripc

import (
	"errors"
	"net"
	"testing"

	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/internal/testutil"
)

// A process that connects over and over and says nothing takes half of the places.
func TestGreetingsOfThisHostAreLimited(t *testing.T) {
	ctx := testutil.Within(t)
	rejected := make(chan error, 2)
	e := open(t, Config{Transport: TransportSHM, OnReject: func(err error) {
		if errors.Is(err, ErrLimit) {
			select {
			case rejected <- err:
			default: // of the connection below, until a place is free
			}
		}
	}})
	var conns []net.Conn
	for range maxGreeting/2 + 1 {
		conn, err := samehost.Dial(ctx, e.Place().Socket)
		must(t, err)
		defer conn.Close()
		conns = append(conns, conn)
	}
	select {
	case <-rejected:
	case <-ctx.Done():
		t.Fatal("no caller was turned away")
	}
	select {
	case err := <-rejected:
		t.Errorf("a second one was turned away: %v", err)
	default:
	}
	for _, conn := range conns {
		conn.Close()
	}
	other := register(t, open(t, Config{Transport: TransportSHM, Resolver: Static{"server": e.Place()}}), "")
	register(t, e, "server")
	for other.To("server").Connect(ctx) != nil {
		must(t, ctx.Err())
	}
}
