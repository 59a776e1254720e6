package ripchttp

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/ripc"
)

// A transport forgets services that no request uses when there are too many, and no other ones.
func TestATransportForgetsServicesThatNoRequestUses(t *testing.T) {
	e, err := ripc.Open(t.Context(), ripc.Config{Resolver: ripc.Static{}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Register(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	tr := &Transport{Service: s}
	tr.once.Do(tr.begin)
	used := tr.to("used")
	for k := range 3 * maxSides {
		tr.to(fmt.Sprint("service", k)).used.Add(-1)
		if n := len(tr.sides); n > maxSides {
			t.Fatalf("%d services are remembered", n)
		}
	}
	if tr.to("used") != used {
		t.Error("a service that a request uses was forgotten")
	}
}
