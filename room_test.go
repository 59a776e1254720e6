package squall

import (
	"testing"

	"github.com/squall-go/squall/internal/multicast"
)

// What is handed over beside the loop waits for an application without room, until it has some or
// the group ends.
func TestWhatIsHandedOverWaitsForRoom(t *testing.T) {
	offered, taken := make(chan int, 1), 0
	app := SubgroupConfig{DeliverSome: func(run []Message) int {
		if offered <- len(run); taken < 2 {
			taken++
			return 1
		}
		return 0
	}}.application(&upcalls{}, newSlices(&Config{}), func() {})
	done := make(chan struct{})
	go func() {
		app.call(make([]multicast.Message, 3))
		close(done)
	}()
	for want := 3; want > 0; want-- {
		if n := <-offered; n != want {
			t.Errorf("%d messages are offered, and not %d", n, want)
		}
		if want > 1 {
			app.resume()
		}
	}
	app.abandon()
	<-done
}
