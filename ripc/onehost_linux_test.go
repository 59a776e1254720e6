package ripc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// A program that is being started has copies of all descriptors of the process that starts it. One
// of a service's socket keeps nobody from taking the name when the service was withdrawn, and
// nobody takes the copy for the service.
func TestACopyOfASocketIsNoService(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	o := oneHost{fmt.Sprint(t.Name(), os.Getpid())}
	withdraw, err := o.Publish(ctx, "service", Place{Addr: "first"})
	must(t, err)
	held := -1
	for fd := range 1 << 12 {
		if at, err := syscall.Getsockname(fd); err == nil {
			if u, ok := at.(*syscall.SockaddrUnix); ok && u.Name == "@"+o.socket("service") {
				held, err = syscall.Dup(fd)
				must(t, err)
				break
			}
		}
	}
	if held < 0 {
		t.Fatal("the service has no socket")
	}
	must(t, withdraw())
	if at, err := o.Resolve(ctx, "service"); !errors.Is(err, ErrNoService) {
		t.Errorf("a service that was withdrawn is at %v: %v", at, err)
	}
	published := make(chan error)
	go func() {
		withdraw, err = o.Publish(ctx, "service", Place{Addr: "second"})
		published <- err
	}()
	syscall.Close(held)
	must(t, <-published)
	if at, err := o.Resolve(ctx, "service"); err != nil || at.Addr != "second" {
		t.Errorf("the service is at %v: %v", at, err)
	}
	if _, err := o.Publish(ctx, "service", Place{Addr: "third"}); !errors.Is(err, ErrRefused) {
		t.Errorf("a name that a service has is taken: %v", err)
	}
	must(t, withdraw())
}
