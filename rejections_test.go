package squall

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
)

// rejecting is a rejections whose events are kept as text.
func rejecting() (r *rejections, events func() []string) {
	var mu sync.Mutex
	var said []string
	r = &rejections{emit: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, e.String())
	}}
	return r, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(said)
	}
}

func flood(r *rejections, n int) {
	for i := range n {
		r.add(port.NewRejection(port.KindRows, fmt.Sprint("stranger ", i), wire.ErrMalformed))
	}
}

func TestAFloodOfRejectionsIsTenEventsASecondAndASum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events := rejecting()
		flood(r, 200)
		if n := len(events()); n != rejectionsTold {
			t.Fatalf("%d events for 200 rejections at once", n)
		}
		time.Sleep(rejectionWindow)
		synctest.Wait()
		if e := events(); len(e) != rejectionsTold+1 || e[rejectionsTold] != "190 more connections rejected" {
			t.Fatalf("after a second: %q", e)
		}
		time.Sleep(time.Minute)
		flood(r, 3)
		time.Sleep(rejectionWindow)
		synctest.Wait()
		if e := events(); len(e) != rejectionsTold+4 {
			t.Fatalf("a minute later, three: %q", e[rejectionsTold:])
		}
		if r.count() != 203 {
			t.Errorf("%d were counted", r.count())
		}
	})
}

func TestWhatWasNotToldIsToldAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events := rejecting()
		flood(r, 12)
		r.close()
		if e := events(); len(e) != rejectionsTold+1 || e[rejectionsTold] != "2 more connections rejected" {
			t.Fatalf("%q", e)
		}
		flood(r, 12)
		r.close()
		if n := len(events()); n != rejectionsTold+1 || r.count() != 24 {
			t.Errorf("%d events, %d counted", n, r.count())
		}
	})
}
