package member_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

var grow = replicated.NewCommand[int, int]("grow")

// What a member answers may be larger than a message between two endpoints: an event, the reply of
// a command, and that of a query.
func TestAnswersOfAnySizeReachClients(t *testing.T) {
	t.Parallel()
	const size = 200 << 10
	for name, transport := range map[string]ripc.Transport{"shm": ripc.TransportAuto, "tcp": ripc.TransportTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := open(t, 2, func(int) *member.Object[*sharer] {
				return member.New(squall.SubgroupConfig{Name: "sharer"}, func() *sharer { return &sharer{} },
					member.Handle(grow, func(s *sharer, c *member.Context, n int) (int, error) {
						s.Bytes = bytes.Repeat([]byte("x"), n)
						c.Emit("grown", bytes.Clone(s.Bytes))
						return n, nil
					}),
					member.Handle(echo, func(s *sharer, _ *member.Context, b []byte) ([]byte, error) { return s.Bytes, nil }),
					member.Handle(kept, func(s *sharer, _ *member.Context, _ []byte) ([]byte, error) { return s.Bytes, nil }))
			}, nil)
			c, _ := serve(t, all, transport)
			o := c.Object("sharer")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for _, n := range []int{10, size, 20} {
				if _, err := grow.Call(ctx, o, n); err != nil {
					t.Fatal(err)
				}
				for what, call := range map[string]func() ([]byte, error){
					"query":   func() ([]byte, error) { return kept.Call(ctx, o, nil) },
					"command": func() ([]byte, error) { return echo.Call(ctx, o, nil) },
				} {
					if got, err := call(); err != nil || len(got) != n || strings.Trim(string(got), "x") != "" {
						t.Errorf("%s: %d bytes, %v; want %d", what, len(got), err, n)
					}
				}
			}
			var sizes []int
			for e, err := range replicated.Watch(ctx, o, replicated.Cursor{}, "") {
				if err != nil {
					t.Fatal(err)
				}
				if sizes = append(sizes, len(e.Data)); len(sizes) == 3 {
					break
				}
			}
			if len(sizes) != 3 || sizes[0] != 10 || sizes[1] != size || sizes[2] != 20 {
				t.Errorf("events of %v bytes", sizes)
			}
		})
	}
}

var stash = replicated.NewCommand[[]byte, int]("stash")

// What a client sends may be larger than a message between two endpoints: the arguments of a
// command, also when its member fails, and those of a query. What is too large for the object is
// refused.
func TestArgumentsOfAnySizeReachMembers(t *testing.T) {
	t.Parallel()
	const size, most = 3 << 19, 2 << 20
	for name, transport := range map[string]ripc.Transport{"shm": ripc.TransportAuto, "tcp": ripc.TransportTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := open(t, 3, func(int) *member.Object[*sharer] {
				return member.New(squall.SubgroupConfig{Name: "sharer", MaxMessageBytes: most}, func() *sharer { return &sharer{} },
					member.Handle(stash, func(s *sharer, _ *member.Context, b []byte) (int, error) {
						s.Bytes = append(s.Bytes, b...)
						return len(s.Bytes), nil
					}),
					member.Handle(kept, func(s *sharer, _ *member.Context, b []byte) ([]byte, error) {
						return bytes.TrimPrefix(s.Bytes, b), nil
					}))
			}, nil)
			_, servers := serve(t, all, transport)
			var addresses []string
			for _, s := range servers {
				addresses = append(addresses, s.Addr())
			}
			c := dial(t, replicated.ClientConfig{Addresses: addresses, Seed: 1, Endpoint: ripc.Config{Transport: transport}})
			o := c.Object("sharer")
			var want []byte
			add := func(n int) {
				t.Helper()
				part := bytes.Repeat([]byte{byte(n)}, n)
				want = append(want, part...)
				if got, err := stash.Call(testutil.Within(t), o, part); err != nil || got != len(want) {
					t.Fatalf("%d bytes, %v; want %d", got, err, len(want))
				}
			}
			add(size)
			add(3)
			if err := servers[0].Close(); err != nil {
				t.Fatal(err)
			}
			add(size + 1)
			if _, err := stash.Call(testutil.Within(t), o, make([]byte, most)); err == nil || !errors.Is(err, squall.ErrTooLarge) {
				t.Errorf("arguments that the object does not take: %v", err)
			}
			for r, err := range stash.Replies(testutil.Within(t), o, want[:size], 0) {
				if err != nil || r.Err != nil || r.Value != len(want)+size {
					t.Errorf("%d bytes, %v, %v", r.Value, r.Err, err)
				}
			}
			want = append(want, want[:size]...)
			if got, err := kept.Call(testutil.Within(t), o, want[:size]); err != nil || !bytes.Equal(got, want[size:]) {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(want)-size)
			}
		})
	}
}

func TestAnObjectThatCouldNotBeOpenedCanBeOpenedAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first, second := ordered(0), newGuests(0)
	cfg := squall.Config{Cluster: "test", ID: 1, Listen: l.Addr().String(), InitialMembers: 1, Logger: quiet}
	if _, err := member.Open(t.Context(), cfg, first); err == nil {
		t.Fatal("two processes listen at one address")
	}
	cfg.Listen = "127.0.0.1:0"
	g, err := member.Open(t.Context(), cfg, first)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	if n, err := deposit.Call(t.Context(), first, depositArgs{"ann", 1}); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	// Beside one that is in use, another one is not taken.
	if _, err := member.Open(t.Context(), cfg, second, first); err == nil {
		t.Fatal("an object is in two groups")
	}
	h, err := member.Open(t.Context(), cfg, second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
}
