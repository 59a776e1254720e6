package ripc

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/internal/shm"
)

// LocalServices returns the services that processes of this user have registered with OneHost, in
// all domains. A process that does not answer is left out.
func LocalServices(ctx context.Context) ([]LocalService, error) {
	file, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	names := map[string]bool{} // a connection to a socket has its name, too
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if _, name, found := strings.Cut(lines.Text(), " @"+servicePrefix); found {
			names[servicePrefix+name] = true
		}
	}
	var all []LocalService
	for name := range names {
		if s, ok := askLocal(ctx, name); ok {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b LocalService) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Service, b.Service))
	})
	return all, ctx.Err()
}

// askLocal asks the process with a socket what service that is.
func askLocal(ctx context.Context, name string) (s LocalService, ok bool) {
	conn, err := samehost.Dial(ctx, name)
	if err != nil {
		return s, false
	}
	defer conn.Close()
	process, ours := samehost.Peer(conn, os.Getuid())
	if !ours {
		return s, false
	}
	conn.SetDeadline(time.Now().Add(time.Second))
	err = shm.Hear(conn, &s)
	s.Process = process
	return s, err == nil && s.Service != ""
}
