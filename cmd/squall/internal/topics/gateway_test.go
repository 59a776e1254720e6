package topics

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
)

func TestTheExampleIsAConfiguration(t *testing.T) {
	f, err := parse([]byte(gatewayExample))
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.gateway()
	if err != nil {
		t.Fatal(err)
	}
	if topic := c.Topics[0]; topic.Type.Name() != "Fleet::Position" || topic.Direction != rtps.Both || topic.QoS.Durability != qos.Transient || topic.QoS.Service.History != qos.KeepLast(1) {
		t.Fatalf("%+v", topic)
	}
}

func TestFaultsOfAConfigurationAreNamed(t *testing.T) {
	for change, want := range map[string]string{
		`"domain": 0/"domains": 0`: "domains",
		`"both"/"back"`:            `direction "back"`,
		`"transient"/"forever"`:    `durability "forever"`,
		`double x/float128 x`:      "float128",
		`"interface": "lo"/"interface": "lo", "lease": "1ms"`: "lease",
		`"interface": "lo"/"interface": "lo", "silent": "1"`:  "silent",
	} {
		from, to, _ := strings.Cut(change, "/")
		if _, err := parse([]byte(strings.Replace(gatewayExample, from, to, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// output is what the command prints, for a test that waits for it.
type output struct {
	sync.Mutex
	bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	return o.Buffer.Write(b)
}

func (o *output) String() string {
	o.Lock()
	defer o.Unlock()
	return o.Buffer.String()
}

func TestTheGatewayRunsUntilItIsInterrupted(t *testing.T) {
	text := strings.NewReplacer(`"join": ["127.0.0.1:7000"], "initial_members": 3`, `"initial_members": 1`, `"domain": 0`, `"domain": 93`).Replace(gatewayExample)
	f, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out output
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx, &out, slog.New(slog.DiscardHandler), 10*time.Millisecond) }()
	for !strings.Contains(out.String(), "carries: true, participants: 0") {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, out.String())
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "gateway of domain 93 at 127.0.0.1:") {
		t.Fatalf("it says %q", out.String())
	}
}
