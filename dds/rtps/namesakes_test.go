package rtps_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/rtps"
	"github.com/squall-go/squall/internal/testutil"
)

// lines has what a logger writes.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// Two groups whose spaces have one name have gateways in one domain, which ignore each other: they
// say so. Gateways of one space say nothing.
func TestAGatewaySaysThatItIgnoresOneOfAnotherSpace(t *testing.T) {
	domain := newDomain()
	kind, err := rtps.TypeOf[keyedSeq]()
	if err != nil {
		t.Fatal(err)
	}
	logged := make(lines, 1000)
	gateway := func(p *member.Member, log *slog.Logger) *rtps.Gateway {
		t.Helper()
		g, err := rtps.Open(t.Context(), rtps.Config{
			Member: p, Domain: domain, Interface: "127.0.0.1", Index: rtps.AnyIndex, Lease: 200 * time.Millisecond, Logger: log,
			Topics: []rtps.Topic{{Name: "positions", Type: kind, Direction: rtps.Both}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	here := space(t, nil)
	ignored := func(line string) bool { return strings.Contains(line, "is ignored") }
	listening := slog.New(slog.NewTextHandler(logged, nil))
	first, second := gateway(here, listening), gateway(here, quiet)
	stranger := gateway(space(t, nil), quiet)
	t.Cleanup(func() {
		closeGateway(t, first)
		closeGateway(t, second)
	})
	ctx := testutil.Within(t)
	said := func() (line string) {
		t.Helper()
		for !ignored(line) {
			select {
			case line = <-logged:
			case <-ctx.Done():
				t.Fatal("nothing is said of another space's gateway")
			}
		}
		return line
	}
	one := said()
	closeGateway(t, stranger)
	again := gateway(space(t, nil), quiet)
	t.Cleanup(func() { closeGateway(t, again) })
	// The gateways of one space have announced themselves as often by now.
	if other := said(); other == one {
		t.Errorf("it is said twice: %s", one)
	}
	if s := first.Stats(); s.Participants != 0 {
		t.Errorf("the gateway knows %d participants", s.Participants)
	}
	for len(logged) > 0 {
		if line := <-logged; ignored(line) {
			t.Errorf("said, too: %s", line)
		}
	}
}
