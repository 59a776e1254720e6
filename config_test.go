package squall_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric"
)

func goodConfig() squall.Config {
	return squall.Config{
		Cluster: "c", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1,
		Subgroups: []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}},
	}
}

func TestZeroConfigIsGood(t *testing.T) {
	if err := goodConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestFailAfterMayBeExactlyThreeHeartbeats(t *testing.T) {
	c := goodConfig()
	c.Heartbeat, c.FailAfter = time.Second, 3*time.Second
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestEachFaultOfAConfigurationIsFound(t *testing.T) {
	type C = squall.Config
	type S = squall.SubgroupConfig
	for want, breaks := range map[string]func(*C, *S){
		"Cluster is empty":           func(c *C, _ *S) { c.Cluster = "" },
		"ID is 0":                    func(c *C, _ *S) { c.ID = 0 },
		"Listen is empty":            func(c *C, _ *S) { c.Listen = "" },
		"InitialMembers is 0":        func(c *C, _ *S) { c.InitialMembers = 0 },
		"InitialMembers is 65":       func(c *C, _ *S) { c.InitialMembers = 65 },
		"set at least 2, a majority": func(c *C, _ *S) { c.Join = []string{"h:1", "h:2", "h:3"} },
		"Secret has 5 bytes":         func(c *C, _ *S) { c.Secret = []byte("short") },
		"Fabric is 9":                func(c *C, _ *S) { c.Fabric = 9 },
		"Transport is nil":           func(c *C, _ *S) { c.Fabric = squall.FabricTransport },
		"Transport is a nil *squall_test.noTransport":  func(c *C, _ *S) { c.Transport = (*noTransport)(nil) },
		"Transport and TLS are both set":               func(c *C, _ *S) { c.Transport, c.TLS = noTransport{}, &tls.Config{} },
		"Cluster is 257 bytes long":                    func(c *C, _ *S) { c.Cluster = strings.Repeat("c", 257) },
		`Listen is "nowhere"`:                          func(c *C, _ *S) { c.Listen = "nowhere" },
		`Listen is "h:70000"`:                          func(c *C, _ *S) { c.Listen = "h:70000" },
		`Advertise is "h:"`:                            func(c *C, _ *S) { c.Advertise = "h:" },
		`Join[1] is "::1:7"`:                           func(c *C, _ *S) { c.Join = []string{"h:7", "::1:7"} },
		"port 0 cannot be dialed":                      func(c *C, _ *S) { c.Join = []string{"h:0"} },
		"must be at least 3 × Heartbea":                func(c *C, _ *S) { c.FailAfter = time.Millisecond },
		"FailAfter (299ms)":                            func(c *C, _ *S) { c.FailAfter = 299 * time.Millisecond },
		"and both more than 0":                         func(c *C, _ *S) { c.Heartbeat = -1 },
		"MaxSpin is 1s":                                func(c *C, _ *S) { c.MaxSpin = time.Second },
		"the name is empty":                            func(_ *C, s *S) { s.Name = "" },
		`subgroup "a" is declared twi`:                 func(c *C, s *S) { c.Subgroups = append(c.Subgroups, *s) },
		"unknown mode 7":                               func(_ *C, s *S) { s.Mode = 7 },
		"ring of 3000 bytes":                           func(_ *C, s *S) { s.RingBytes = 3000 },
		"window of 3 messages":                         func(_ *C, s *S) { s.Window = 3 },
		"one of Deliver, DeliverBatch and DeliverSome": func(_ *C, s *S) { s.Deliver = nil },
		"set one of Deliver":                           func(_ *C, s *S) { s.DeliverBatch = func([]squall.Message) {} },
		"AsyncQueueBytes is -1":                        func(_ *C, s *S) { s.AsyncQueueBytes = -1 },
		"members [1 1]":                                func(_ *C, s *S) { s.Members = []squall.NodeID{1, 1} },
		"senders [0]":                                  func(_ *C, s *S) { s.Senders = []squall.NodeID{0} },
		"sender 2 is not among its mem":                func(_ *C, s *S) { s.Members, s.Senders = []squall.NodeID{1}, []squall.NodeID{2} },
		"set both Layout and LayoutName":               func(_ *C, s *S) { s.LayoutName = "mine" },
		"set both Snapshot and Restore":                func(_ *C, s *S) { s.Restore = func(io.Reader) error { return nil } },
		"BacklogBytes is -1":                           func(_ *C, s *S) { s.BacklogBytes = -1 },
	} {
		c := goodConfig()
		if breaks(&c, &c.Subgroups[0]); c.Validate() == nil || !strings.Contains(c.Validate().Error(), want) {
			t.Errorf("%q is not in: %v", want, c.Validate())
		}
	}
}

func TestAllFaultsComeInOneError(t *testing.T) {
	c := squall.Config{MaxSpin: time.Hour, Subgroups: []squall.SubgroupConfig{{RingBytes: 1, Window: 1}, {Name: "b", AsyncQueueBytes: -1}}}
	_, err := squall.Open(context.Background(), c)
	if err == nil {
		t.Fatal("opened")
	}
	for _, part := range []string{"Cluster", "ID is 0", "Listen", "InitialMembers", "MaxSpin", "ring of 1", "window of 1", "Deliver", "AsyncQueueBytes"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}

func TestAPortInUseIsNamed(t *testing.T) {
	c := goodConfig()
	first, err := squall.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close(context.Background())
	c.Listen = first.Addr()
	if _, err := squall.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), c.Listen) {
		t.Errorf("%v", err)
	}
}

func TestAfterCloseEverySendIsRefused(t *testing.T) {
	g, err := squall.Open(t.Context(), goodConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Close(t.Context()), g.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if err := must(g.Subgroup("a")).Send(t.Context(), nil); !errors.Is(err, squall.ErrClosed) {
		t.Errorf("Send: %v", err)
	}
	if err := must(g.Subgroup("a")).TrySend(nil); !errors.Is(err, squall.ErrClosed) {
		t.Errorf("TrySend: %v", err)
	}
	select {
	case <-g.Done():
	default:
		t.Error("a closed group is not done")
	}
}

// noTransport is one that is never opened.
type noTransport struct{ fabric.Transport }
