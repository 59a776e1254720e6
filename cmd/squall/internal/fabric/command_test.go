package fabric

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/squall-go/squall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs the end that listens, and returns its address.
func serve(t *testing.T) (addr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- listen(ctx, "127.0.0.1:0", func(addr string) { ready <- addr }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return addr
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SetArgs(append([]string{"check", "--listen", "127.0.0.1:0"}, args...))
	cmd.SetOut(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestEachFabricIsChecked(t *testing.T) {
	addr := serve(t)
	out, err := run(t, "--json", "--duration", "20ms", addr)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var results []Result
	if err := json.Unmarshal([]byte(out), &results); err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Fabric == "verbs" && r.Link == "" { // this build has none
			continue
		}
		if r.Link != r.Fabric || r.Error != "" || r.Wrong > 0 || !r.SameOrder || r.Messages == 0 || r.LatencyP50 <= 0 || r.ThereBytesS <= 0 || r.BackBytesS <= 0 {
			t.Errorf("%+v", r)
		}
	}
	if len(results) != 3 {
		t.Errorf("%d results", len(results))
	}
	if out, err = run(t, "--fabric", "tcp", "--duration", "20ms", addr); err != nil || !strings.Contains(out, "tcp   latency ") || !strings.Contains(out, ", 0 wrong, the same order") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A message that is torn, or out of order, is counted.
func TestAMessageThatIsWrongIsCounted(t *testing.T) {
	e := &end{id: listener}
	send := func(index uint64, spoil int) {
		b := make([]byte, 100)
		b[0], b[1] = kindData, byte(index)
		copy(b[headBytes:], content(checker, index, len(b)))
		b[spoil] ^= 1
		e.deliver(squall.Message{Sender: checker, Data: b})
	}
	for index := range uint64(4) {
		b := make([]byte, headBytes+1)
		b[0], b[1], b[headBytes] = kindData, byte(index), content(checker, index, len(b))[0]
		e.deliver(squall.Message{Sender: checker, Data: b})
	}
	if e.messages != 4 || e.wrong != 0 {
		t.Fatalf("%d of %d are wrong", e.wrong, e.messages)
	}
	send(4, 99) // a byte of the content
	send(5, 1)  // its index
	send(9, 1)  // one that is early
	e.deliver(squall.Message{Sender: checker})
	e.deliver(squall.Message{Sender: checker, Data: []byte{kindControl, '{'}})
	if e.wrong != 5 {
		t.Errorf("%d are wrong", e.wrong)
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{}, {"nowhere"}, {"--duration", "0s", "127.0.0.1:1"}, {"--duration", "2m", "127.0.0.1:1"}, {"--fabric", "ipx", "127.0.0.1:1"}} {
		if out, err := run(t, args...); err == nil || out != "" {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
	e := &end{}
	for _, c := range []control{{For: time.Hour, Bytes: 100}, {For: time.Second, Bytes: 1 << 30}, {For: time.Second}} {
		if _, err := e.flood(t.Context(), c, new(uint64)); err == nil {
			t.Errorf("%+v is done", c)
		}
	}
}
