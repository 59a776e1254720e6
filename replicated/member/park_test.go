package member_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// A watcher whose question waits at a member misses nothing when the events that do not match it
// are dropped meanwhile.
func TestAWatcherThatWaitsIsNotLeftBehind(t *testing.T) {
	t.Parallel()
	all := open(t, 1, announcers, nil)
	s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, all[0].bank)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	id := serviceOf(all[0].group, "announcer")
	e, err := ripc.Open(t.Context(), ripc.Config{Resolver: ripc.Static{id: ripc.Place{Addr: s.Addr()}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	caller, err := e.Register(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r client.Request) (client.Answer, error) {
		m, err := caller.Call(t.Context(), caller.To(id), r.AppendTo(nil))
		if err != nil {
			return client.Answer{}, err
		}
		defer m.Release()
		return client.ParseAnswer(append([]byte(nil), m.Data...))
	}
	// One goroutine looks for watchers, and then answers what came. So it has looked once between two
	// answers.
	look := func() {
		t.Helper()
		for range 2 {
			if a, err := ask(client.Request{Ask: client.Now}); err != nil || a.Said != client.Done {
				t.Fatalf("now: %+v, %v", a, err)
			}
		}
	}
	look() // the connection is there, and its messages come in their order
	question := append(binary.LittleEndian.AppendUint32(make([]byte, 24), 10_000), "quiet"...)
	answers := make(chan client.Answer, 1)
	before := e.Stats().Calls
	go func() {
		a, err := ask(client.Request{Ask: client.Watch, Rest: question})
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	await(t, "a question", func() bool { return e.Stats().Calls > before })
	large := "loud/" + strings.Repeat("x", 7<<10)
	for i := range 900 { // 6 MiB, of which 4 are kept
		if _, err := emit.Call(t.Context(), all[0].bank, []string{large}); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			look()
		}
	}
	for _, err := range replicated.Watch(t.Context(), all[0].bank, replicated.Cursor{}, "") {
		if err == nil {
			t.Fatal("all events are kept: the test tests nothing")
		}
		break
	}
	if _, err := emit.Call(t.Context(), all[0].bank, []string{"quiet/1"}); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.Said != client.Done || !strings.HasSuffix(string(a.Text), "quiet1") {
		t.Errorf("%+v", a)
	}
}
