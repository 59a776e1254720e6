package replicated_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// fixed resolves every service to one address.
type fixed string

func (f fixed) Resolve(context.Context, ripc.ID) (ripc.Place, error) {
	return ripc.Place{Addr: string(f)}, nil
}

func (f fixed) Publish(context.Context, ripc.ID, ripc.Place) (func() error, error) {
	return func() error { return nil }, nil
}

// TestRequestsOfAClientThatTakesNoAnswersWait has a client send many requests and take few of the answers. The member computes as many as it may keep; the other
// requests wait, and other clients do not. When the client takes the answers, it gets all.
func TestRequestsOfAClientThatTakesNoAnswersWait(t *testing.T) {
	t.Parallel()
	const bytes, calls, most, taken = 1 << 20, 48, 4, 2
	var executed atomic.Int64
	get := replicated.NewQuery[int, []byte]("get")
	all := open(t, 1, func(int) *replicated.Object[*bank] {
		return replicated.New(squall.SubgroupConfig{Name: "accounts"}, newBank,
			replicated.Handle(deposit, (*bank).deposit),
			replicated.Handle(get, func(_ *bank, _ *replicated.Context, n int) ([]byte, error) {
				executed.Add(1)
				return make([]byte, n), nil
			}))
	}, nil)
	s, err := replicated.Serve(t.Context(), replicated.ServerConfig{Endpoint: ripc.Config{Addr: "127.0.0.1:0"}, MaxAnswerBytes: most * bytes}, all[0].bank)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e, err := ripc.Open(t.Context(), ripc.Config{Transport: ripc.TCP, Resolver: fixed(s.Addr()), MoveTime: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	client, err := e.Register(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.TakeLong(ripc.Long{MaxBytes: (taken + 1) * bytes, MaxPeerBytes: (taken + 1) * bytes}); err != nil { // an answer has a head
		t.Fatal(err)
	}
	to := client.To(ripc.ID("squall object\x00test\x00" + all[0].group.View().Group + "\x00accounts"))
	request := (&relay.Request{Ask: relay.Query, Consistency: relay.Local, Name: []byte("get"), Args: []byte{0x1a, 0x00, 0x10, 0x00, 0x00}}).AppendTo(nil) // CBOR of 1 MiB
	answers := make(chan ripc.Message, calls)
	for range calls {
		go func() {
			m, err := client.Call(testutil.Within(t), to, request)
			if err != nil {
				t.Error(err)
			}
			answers <- m
		}()
	}
	for ctx := testutil.Within(t); int(executed.Load())+s.Waiting() < calls; time.Sleep(time.Millisecond) { // polls
		if ctx.Err() != nil {
			t.Fatalf("of %d requests %d were executed, and %d wait", calls, executed.Load(), s.Waiting())
		}
	}
	if n := executed.Load(); n > most+taken {
		t.Errorf("%d answers are made for a client that takes %d", n, taken)
	}
	other := dial(t, replicated.ClientConfig{Addresses: []string{s.Addr()}}) // through shared memory: it is another party
	if n, err := deposit.Call(testutil.Within(t), other.Object("accounts"), depositArgs{"ann", 1}); n != 1 || err != nil {
		t.Errorf("another client: %d, %v", n, err)
	}
	for range calls {
		m := <-answers
		if m.BodySize() < bytes {
			t.Errorf("an answer of %d bytes", m.BodySize())
		}
		m.Release()
	}
	if n := executed.Load(); n != calls || s.Waiting() != 0 {
		t.Errorf("%d requests were executed, and %d wait", n, s.Waiting())
	}
}
