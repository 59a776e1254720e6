package restart

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/views"
)

// AnnounceConfig is what a member needs to announce its group.
type AnnounceConfig struct {
	Cluster string
	Self    views.Member
	Join    []string
	// View is the view that is installed; nil: this process is no member any more.
	View   func() *views.View
	Memory *Memory
	TLS    *tls.Config // to dial; nil is plain
	Times
}

// Announce carries the announcements of an Announcer over connections until the context ends.
func Announce(ctx context.Context, c AnnounceConfig) {
	c.Times = c.Times.withDefaults()
	a, epoch := NewAnnouncer(c.Cluster, c.Self, c.Join, c.Times), time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		var sending sync.WaitGroup
		for _, s := range a.Tick(time.Since(epoch), c.View(), c.Memory.State().Former) {
			sending.Go(func() { c.announce(ctx, s) })
		}
		sending.Wait()
		timer.Reset(max(0, a.Next()-time.Since(epoch)))
	}
}

// announce says one hello. A process that waits at the address asks over a connection of its own;
// what comes back over this one is of no use here, and is read so that nothing resets the
// connection.
func (c AnnounceConfig) announce(ctx context.Context, s Send) {
	ctx, cancel := context.WithTimeout(ctx, c.Silence)
	defer cancel()
	raw, err := port.Dial(ctx, s.To, port.KindRestart, c.TLS)
	if err != nil {
		return // no process is there that waits for the group
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	conn := talk(raw, c.Silence, c.Silence)
	if conn.Say(s.Message) != nil {
		return
	}
	conn.HangUp(c.Silence)
	for {
		if _, _, err := conn.Next(); err != nil {
			return
		}
	}
}
