package ripc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

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
	out, err := execute(t, "--runs", "1", "--warmup", "1ms", "--duration", "10ms", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report[run]
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(r.Series) != 13 {
		t.Errorf("%d cases", len(r.Series))
	}
	for _, s := range r.Series {
		if len(s.Runs) != 1 || s.Runs[0].Rate <= 0 || s.Runs[0].Mean <= 0 {
			t.Errorf("%s: %+v %s", s.Name, s.Runs, s.Error)
		}
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
