package rdmc

import (
	"bytes"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
)

func TestNodesOfTheirOwnTalkThroughTLS(t *testing.T) {
	config := testutil.NewAuthority(t).TLS()
	w := &world{t: t}
	for i := range 3 {
		n, err := Open(t.Context(), Config{Self: Peer{ID: order.NodeID(i + 1), Addr: "127.0.0.1:0"}, TLS: config})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		w.nodes, w.peers = append(w.nodes, n), append(w.peers, n.Peer())
	}
	all := w.open("g", GroupConfig{BlockBytes: 100_000})
	want := noise(1, 3_000_000)
	if err := all[0].Send(testutil.Within(t), want); err != nil {
		t.Fatal(err)
	}
	closeAll(t, all)
	for _, x := range all[1:] {
		if !bytes.Equal(receive(t, x.messages, "message").Data, want) {
			t.Fatal("the message differs")
		}
	}
}
