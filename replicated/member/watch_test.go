package member_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

var emit = replicated.NewCommand[[]string, int]("emit")

// announcer is an object whose commands emit events: "topic/data".
type announcer struct{ N int }

func (a *announcer) emit(c *member.Context, events []string) (int, error) {
	for _, e := range events {
		topic, data, _ := strings.Cut(e, "/")
		c.Emit(topic, []byte(data))
		a.N++
	}
	return a.N, nil
}

func announcers(int) *member.Object[*announcer] {
	return member.New(squall.SubgroupConfig{Name: "announcer"}, func() *announcer { return &announcer{} },
		member.Handle(emit, (*announcer).emit))
}

// take takes n events of a watch and returns them as texts, and the cursor behind the last one.
func take(t *testing.T, target replicated.Target, after replicated.Cursor, prefix string, n int) (got []string, _ replicated.Cursor) {
	t.Helper()
	for e, err := range replicated.Watch(t.Context(), target, after, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Topic+"/"+string(e.Data))
		after = e.Cursor
		if len(got) == n {
			break
		}
	}
	return got, after
}

func TestEventsAreWatchedByMembersAndClients(t *testing.T) {
	t.Parallel()
	all := open(t, 2, announcers, nil)
	c, servers := serve(t, all, ripc.TransportAuto)
	targets := map[string]replicated.Target{"member 1": all[0].bank, "member 2": all[1].bank, "client": c.Object("announcer")}
	for _, events := range [][]string{{"a/1", "b/2"}, {"a/3"}, {"ab/4", "a/5"}} {
		if _, err := emit.Call(t.Context(), all[0].bank, events); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range targets {
		got, last := take(t, target, replicated.Cursor{}, "a", 4)
		if s := strings.Join(got, " "); s != "a/1 a/3 ab/4 a/5" {
			t.Errorf("%s: %s", name, s)
		}
		after, err := replicated.Now(t.Context(), target)
		if err != nil || after.Version.Seq < last.Version.Seq {
			t.Errorf("%s: now is %v, %v; an event is at %v", name, after, err, last)
		}
		// What comes later is awaited, also while the client changes members.
		more := make(chan []string, 1)
		go func() {
			got, _ := take(t, target, after, "", 2)
			more <- got
		}()
		if name == "client" {
			if err := servers[0].Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := emit.Call(t.Context(), all[1].bank, []string{"x/" + name, "y/" + name}); err != nil {
			t.Fatal(err)
		}
		if s := strings.Join(<-more, " "); s != "x/"+name+" y/"+name {
			t.Errorf("%s: then %s", name, s)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range replicated.Watch(ended, all[0].bank, replicated.Cursor{}, "none") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a watch whose context has ended: %v", err)
		}
	}
}

func TestAWatcherThatIsTooFarBehindIsTold(t *testing.T) {
	t.Parallel()
	all := open(t, 1, announcers, nil)
	c, _ := serve(t, all, ripc.TransportAuto)
	large := "t/" + strings.Repeat("x", 7<<10)
	for range 700 {
		if _, err := emit.Call(t.Context(), all[0].bank, []string{large}); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]replicated.Target{"member": all[0].bank, "client": c.Object("announcer")} {
		for _, err := range replicated.Watch(t.Context(), target, replicated.Cursor{}, "") {
			if !errors.Is(err, replicated.ErrCompacted) {
				t.Errorf("%s: %v", name, err)
			}
			break
		}
		now, err := replicated.Now(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := emit.Call(t.Context(), all[0].bank, []string{"t/last"}); err != nil {
			t.Fatal(err)
		}
		if got, _ := take(t, target, now, "", 1); got[0] != "t/last" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
