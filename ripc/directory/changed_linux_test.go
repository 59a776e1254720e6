package directory

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// A client of this host that changes its questions while the member reads them does no harm:
// encoding/json panics where text changes under it.
func TestAQuestionThatChangesWhileItIsReadIsHarmless(t *testing.T) {
	ctx := testutil.Within(t)
	m := cluster(t, 1, options{})[0]
	e, err := ripc.Open(ctx, ripc.Config{Transport: ripc.TransportSHM, Resolver: ripc.Static{ServiceID: m.endpoint.Place()}})
	must(t, err)
	defer e.Close()
	s, err := e.Register(ctx, "")
	must(t, err)
	to := s.To(ServiceID)
	text := []byte(`{"find":{"name":"` + strings.Repeat("Q", 7500) + `"}}`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			if reply, err := s.Call(ctx, to, text); err == nil { // else the member saw the other text
				reply.Release()
			}
		}
	}()
	four := func(s string) uint32 { return *(*uint32)(unsafe.Pointer(unsafe.StringData(s))) }
	for {
		for _, row := range testutil.OwnRows() {
			at := bytes.Index(row, bytes.Repeat([]byte{'Q'}, 6000))
			if at < 0 {
				continue
			}
			word := (*uint32)(unsafe.Pointer(&row[(at+3000)&^3]))
			for range 300 {
				if !atomic.CompareAndSwapUint32(word, four(`QQQQ`), four(`QQ"Q`)) {
					break
				}
				atomic.StoreUint32(word, four(`QQQQ`))
			}
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
