package directory

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/ripc"
)

// A client that asks for names without end costs no more memory than maxWatched names take. Other clients are told as before.
func TestTheNamesThatAClientWatchesAreBounded(t *testing.T) {
	w := newWatch()
	hostile, other := new(ripc.Remote), new(ripc.Remote)
	for i := range 2 * maxWatched {
		w.add(fmt.Sprint(i), hostile)
		w.add(fmt.Sprint(i), hostile)
	}
	w.add("0", other)
	w.add("z", other)
	if len(w.clients) != maxWatched+1 || !w.clients["0"][hostile] || !w.clients["0"][other] || !w.clients["z"][other] {
		t.Errorf("%d names are watched, want %d", len(w.clients), maxWatched+1)
	}
	w.drop(func(c *ripc.Remote) bool { return c == hostile })
	if len(w.clients) != 2 || len(w.names) != 1 {
		t.Errorf("%d names of %d clients are watched after one was dropped", len(w.clients), len(w.names))
	}
	if w.add("1", hostile); !w.clients["1"][hostile] {
		t.Error("a client that was dropped cannot watch again")
	}
}
