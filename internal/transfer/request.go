package transfer

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/order"
)

// request is what a fresh member says.
type request struct {
	Cluster  string       `json:"cluster"`
	View     order.ViewID `json:"view"` // in which the member is fresh
	Key      string       `json:"key"`  // of that view
	Subgroup int          `json:"subgroup"`
	Node     order.NodeID `json:"node"`
	Done     bool         `json:"done,omitempty"` // the state is here; none is wanted any more
}

func (q request) String() string {
	return fmt.Sprintf("node %d, subgroup %d of view %d of %q", q.Node, q.Subgroup, q.View, q.Cluster)
}

// answer precedes the stream. An empty one grants what was asked for.
type answer struct {
	Later   string `json:"later,omitempty"`   // why not now
	Refused string `json:"refused,omitempty"` // why never
}

// maxGreetingBytes bounds a request, and an answer. Names and keys have 256 bytes at most, which JSON may make sixfold.
const maxGreetingBytes = 8 << 10

// hear reads one message within a time.
func hear(conn net.Conn, within time.Duration, v any) error {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	return port.ReadMessage(io.LimitReader(conn, maxGreetingBytes), v)
}

// say writes one message within a time.
func say(conn net.Conn, within time.Duration, v any) error {
	if err := conn.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	return port.WriteMessage(conn, v)
}
