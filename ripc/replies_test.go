package ripc

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// Replies that are given together reach every caller, of two processes, also when they find no
// room.
func TestRepliesThatAreGivenTogether(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		const callers, rounds = 8, 30
		server := register(t, open(Config{RingBytes: 4 << 10}), "server")
		var calling sync.WaitGroup
		for range 2 {
			client := register(t, open(Config{RingBytes: 4 << 10}), "")
			for k := range callers {
				calling.Go(func() {
					for n := range rounds {
						want := bytes.Repeat(fmt.Append(nil, k, n), 100)
						m, err := client.Call(ctx, client.To("server"), want)
						if err != nil || !bytes.Equal(m.Data, want) {
							t.Errorf("caller %d: %d bytes, %v", k, len(m.Data), err)
							return
						}
						m.Release()
					}
				})
			}
		}
		var together Replies
		for n := range 2 * callers * rounds {
			m, err := server.Receive(ctx)
			must(t, err)
			must(t, together.Reply(&m, bytes.Clone(m.Data)))
			m.Release()
			if n%3 == 2 || n >= (2*callers-2)*rounds { // with two callers left, the next request comes after the reply
				together.Flush()
			}
		}
		together.Flush()
		calling.Wait()
	})
}
