package member

import (
	"testing"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/ripc"
)

// A filter of a client may take as long as it wants: the participant's lock is free meanwhile, and
// so other clients and the order go on.
func TestAFilterOfAClientHoldsUpNothing(t *testing.T) {
	m := alone(t)
	p := m.b
	inside, err := dds.NewTopic(t.Context(), m, "t", dds.Raw(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := Serve(t.Context(), RelayConfig{Member: m, Endpoint: ripc.Config{Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	c, err := dds.Dial(t.Context(), dds.ClientConfig{Space: "fleet", Cluster: "test", Addresses: []string{relay.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	outside, err := dds.NewTopic(t.Context(), c, "t", dds.Raw(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := outside.Reader(t.Context(), dds.QoS{History: qos.KeepAll()})
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	p.Mu.Lock()
	followed(p).Filter = func(data []byte) bool {
		if string(data) == "slow" {
			close(entered)
			<-leave
		}
		return string(data) != "dropped"
	}
	p.Mu.Unlock()
	w, err := inside.Writer(t.Context(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"slow", "dropped"} {
		if err := w.Write(t.Context(), []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	if err := w.Write(t.Context(), []byte("meanwhile")); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(t.Context()); err != nil { // the order goes on
		t.Fatal(err)
	}
	close(leave)
	for _, want := range []string{"slow", "meanwhile"} {
		if s, err := r.Next(t.Context()); err != nil || string(s.Value) != want {
			t.Fatalf("%q was read, and should be %q: %v", s.Value, want, err)
		}
	}
}

// followed is the reader of the only client. The lock is held.
func followed(p *backend) *space.Followed {
	for _, x := range p.clients {
		if x.reader != nil {
			return x.reader
		}
	}
	return nil
}
