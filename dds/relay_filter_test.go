package dds

import (
	"log/slog"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// A filter of a client may take as long as it wants: the participant's lock is free meanwhile, and so other clients and the order go on.
func TestAFilterOfAClientHoldsUpNothing(t *testing.T) {
	p := NewParticipant(Config{Subgroup: squall.SubgroupConfig{Name: "fleet"}})
	addr := testutil.FreeAddress(t)
	if err := p.Open(t.Context(), squall.Config{Cluster: "test", ID: 1, Listen: addr, Join: []string{addr}, InitialMembers: 1, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close(t.Context()) }()
	inside, err := NewTopic(t.Context(), p, "t", Raw(), QoS{})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := ServeClients(t.Context(), RelayConfig{Endpoint: ripc.Config{Transport: ripc.SHM}}, p)
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	c := NewParticipant(Config{Subgroup: squall.SubgroupConfig{Name: "fleet"}})
	if err := c.Dial(t.Context(), ClientConfig{Cluster: "test", Addresses: []string{relay.Addr()}}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	outside, err := NewTopic(t.Context(), c, "t", Raw(), QoS{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := outside.Reader(t.Context(), QoS{History: qos.KeepAll()})
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	followed(p).Filter = func(data []byte) bool {
		if string(data) == "slow" {
			close(entered)
			<-leave
		}
		return string(data) != "dropped"
	}
	p.mu.Unlock()
	w, err := inside.Writer(t.Context(), QoS{})
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
func followed(p *Participant) *space.Followed {
	for _, x := range p.clients {
		if x.reader != nil {
			return x.reader
		}
	}
	return nil
}
