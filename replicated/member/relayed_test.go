package member_test

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// pretend serves an object as a member would, and has f answer its requests. It returns the
// address.
func pretend(t *testing.T, f func(r client.Request, request []byte) client.Answer) string {
	t.Helper()
	e, err := ripc.Open(t.Context(), ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{}, Transport: ripc.TransportTCP})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	serve := func(id ripc.ID, f func(r client.Request, request []byte) client.Answer) {
		s, err := e.Register(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				m, err := s.Receive(context.Background())
				if err != nil {
					return
				}
				r, err := client.Parse(m.Data)
				if err != nil {
					t.Error(err)
				}
				a := f(r, bytes.Clone(m.Data))
				if err := m.Reply(a.AppendTo(nil)); err != nil {
					t.Error(err)
				}
				m.Release()
			}
		}()
	}
	serve("squall object\x00test\x00group\x00accounts", f)
	serve("squall objects", func(client.Request, []byte) client.Answer {
		return client.Answer{Said: client.Done, Text: []byte("group")}
	})
	return e.Addr()
}

// TestACommandKeepsItsNumberAtFailOver has members that execute commands and cannot answer. What a
// client sends to the next one is what it sent to the first: the same number of the same session,
// so that it is executed once.
func TestACommandKeepsItsNumberAtFailOver(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[uint64][][]byte{} // requests by their number, in their order
	answer := func(r client.Request, request []byte) client.Answer {
		mu.Lock()
		defer mu.Unlock()
		if r.Ask != client.Command {
			return client.Answer{Said: client.Done, Text: []byte{1, 0, 0, 0, 0, 0, 0, 0}}
		}
		asked[r.Number] = append(asked[r.Number], request)
		if len(asked[r.Number]) < 4 {
			return client.Answer{Said: client.Away}
		}
		return client.Answer{Said: client.Done, Text: []byte{byte(len(asked[r.Number]))}} // CBOR
	}
	addresses := []string{pretend(t, answer), pretend(t, answer), pretend(t, answer)}
	bank := dial(t, replicated.ClientConfig{Addresses: addresses, Endpoint: ripc.Config{Transport: ripc.TransportTCP}}).Object("accounts")
	const calls = 5
	for i := range calls {
		if n, err := deposit.Call(testutil.Within(t), bank, depositArgs{"ann", int64(i)}); n != 4 || err != nil {
			t.Fatalf("call %d: %d, %v", i, n, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != calls {
		t.Errorf("%d calls had %d numbers", calls, len(asked))
	}
	for number, all := range asked {
		for _, request := range all {
			if !bytes.Equal(request, all[0]) {
				t.Errorf("number %d stood for % x, and then for % x", number, all[0], request)
			}
		}
	}
}

// TestAMemberAnswersWhatIsExecuted holds the order up at a member. A client that it relays for gets
// no answer before its command was executed there.
func TestAMemberAnswersWhatIsExecuted(t *testing.T) {
	t.Parallel()
	hold := replicated.NewCommand[int, int]("hold")
	count := replicated.NewCommand[int, int]("count")
	var executed atomic.Int64
	held, free := make(chan struct{}), make(chan struct{})
	all := open(t, 2, func(i int) *member.Object[*bank] {
		return member.New(squall.SubgroupConfig{Name: "accounts"}, newBank,
			member.Handle(hold, func(*bank, *member.Context, int) (int, error) {
				if i == 0 {
					close(held)
					<-free
				}
				return 0, nil
			}),
			member.Handle(count, func(*bank, *member.Context, int) (int, error) {
				if i == 0 {
					executed.Add(1)
				}
				return 0, nil
			}))
	}, func(_ int, c *squall.Config) { c.FailAfter = time.Minute })
	c, _ := serve(t, all[:1], ripc.TransportAuto)
	if _, err := count.Call(t.Context(), c.Object("accounts"), 0); err != nil { // the session is open
		t.Fatal(err)
	}
	if err := all[0].bank.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := executed.Load()
	holding, err := hold.Go(t.Context(), all[1].bank, 0)
	if err != nil {
		t.Fatal(err)
	}
	<-held
	answers := make(chan int64)
	const calls = 4
	for range calls {
		go func() {
			if _, err := count.Call(t.Context(), c.Object("accounts"), 0); err != nil {
				t.Error(err)
			}
			answers <- executed.Load()
		}()
	}
	early := time.After(200 * time.Millisecond)
	for n := range calls {
		select {
		case got := <-answers:
			if got <= before {
				t.Errorf("answer %d came before anything was executed", n)
			}
		case <-early:
			close(free)
			early = nil
			if got := <-answers; got <= before {
				t.Errorf("answer %d came before anything was executed", n)
			}
		}
	}
	if early != nil {
		close(free)
	}
	if _, err := holding.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if n := executed.Load(); n != before+calls {
		t.Errorf("%d commands were executed, want %d", n-before, calls)
	}
}
