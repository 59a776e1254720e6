package ripc

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestEveryCaseIsMeasured(t *testing.T) {
	out, err := execute(t, "--only", "round-trips,one-way,calls,http", "--runs", "1", "--warmup", "1ms", "--duration", "10ms", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report[run]
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(r.Series) != 20 {
		t.Errorf("%d cases", len(r.Series))
	}
	for _, s := range r.Series {
		if len(s.Runs) != 1 || s.Runs[0].Rate <= 0 || s.Runs[0].Mean <= 0 {
			t.Errorf("%s: %+v %s", s.Name, s.Runs, s.Error)
		}
	}
}

func TestIdleClientsAreMeasured(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		s := spec{System: viaRIPC, Fabric: fabric, Load: idle, Clients: 20, Size: 64, Duration: 10 * time.Millisecond}
		r, err := s.measure(t.Context())
		if err != nil || r.Idle.ClientBytes <= 0 || r.Idle.CPUPercent < 0 {
			t.Errorf("%s: %+v, %v", fabric, r, err)
		}
	}
}

func TestBusyClientsAmongIdleOnesAreMeasured(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		s := spec{System: viaRIPC, Fabric: fabric, Load: calls, Clients: 20, Busy: 3, Callers: 3, Size: 64, Duration: 10 * time.Millisecond}
		r, err := s.measure(t.Context())
		if want := "ripc over " + fabric + ", calls, 64 B, 3 clients among 20 idle ones"; err != nil || r.Rate <= 0 || s.name() != want {
			t.Errorf("%s: %+v, %v", s.name(), r, err)
		}
	}
}

func TestSocketTripIsATime(t *testing.T) {
	if us, err := SocketTrip(t.Context(), "unix", 64, time.Millisecond, 10*time.Millisecond); err != nil || us <= 0 {
		t.Errorf("%v µs, %v", us, err)
	}
}

func TestAllFaultsOfTheFlagsAreToldAtOnce(t *testing.T) {
	_, err := execute(t, "--size", "0", "--runs", "0", "--duration", "0s", "--only", "pigeons")
	for _, flag := range []string{"--size", "--runs", "--duration", "--only"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("nothing about %s: %v", flag, err)
		}
	}
}

func TestCallsOfGRPCAreMeasuredByAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	script := "#!/bin/sh\necho \"$@\" >> " + path + ".asked\necho '{\"msgs_per_s\": 5, \"p50_us\": 7, \"ok\": true}'\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var calls set
	callBars(&calls, spec{Size: 64, Duration: time.Second}, bench.Peers{Path: path})
	for _, c := range calls.Cases {
		if !strings.HasPrefix(c.Name, "gRPC") {
			continue
		}
		if r, err := c.Measure(t.Context()); err != nil || r.Rate != 5 || r.Mean != 7 {
			t.Errorf("%s: %v, %v", c.Name, r, err)
		}
	}
	asked, err := os.ReadFile(path + ".asked")
	const want = "-size 64 -callers 1 -secs 1 -json\n-size 64 -callers 64 -secs 1 -json\n"
	if err != nil || string(asked) != want {
		t.Errorf("%v: %s", err, asked)
	}
}

func TestMessagesOfUCXAndZeroMQAreMeasuredByAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	script := "#!/bin/sh\necho \"$@\" >> " + path + ".asked\necho '{\"msgs_per_s\": 5, \"p50_us\": 7, \"ok\": true}'\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	base, peers := spec{System: viaRIPC, Fabric: "shm", Size: 64, Duration: time.Second}, bench.Peers{Path: path}
	var all set
	roundTripBars(&all, base, peers)
	oneWayBars(&all, base, peers)
	for _, c := range all.Cases {
		if !strings.HasPrefix(c.Name, "UCX") && !strings.HasPrefix(c.Name, "ZeroMQ") {
			continue
		}
		if r, err := c.Measure(t.Context()); err != nil || r.Rate != 5 || r.Mean != 7 {
			t.Errorf("%s: %v, %v", c.Name, r, err)
		}
	}
	asked, err := os.ReadFile(path + ".asked")
	const want = "-system ucx -fabric shm -load round trips -size 64 -secs 1 -json\n" +
		"-system ucx -fabric tcp -load round trips -size 64 -secs 1 -json\n" +
		"-system ucx -fabric shm -load one way -size 64 -secs 1 -json\n" +
		"-system zeromq -fabric shm -load one way -size 64 -secs 1 -json\n"
	if err != nil || string(asked) != want {
		t.Errorf("%v: %s", err, asked)
	}
}
