package topics

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/ripc"
)

// position is the type of a topic that the commands do not know.
type position struct {
	Vehicle int32 `dds:"key"`
	X       float64
}

// note is a sample without keys.
type note struct{ Text string }

// run runs a command and returns what it prints.
func run(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	if sub, _, err := cmd.Find(args); err == nil && sub.Flags().Lookup("timeout") != nil { // a busy machine takes longer than a user waits
		fatal(t, sub.Flags().Set("timeout", "40s"))
	}
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// program is a member with topics of its own types.
func program(t *testing.T) (p *member.Member, join string) {
	t.Helper()
	p, err := member.Open(t.Context(), member.Config{
		Group: squall.Config{
			Cluster: "dds", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		},
		Subgroup: squall.SubgroupConfig{Name: "space"},
	})
	fatal(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p, "--join=" + p.Group().Addr()
}

func TestSamplesOfAProgramArePrintedAndWritten(t *testing.T) {
	p, join := program(t)
	durable := dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}
	notes, err := dds.NewTopic(t.Context(), p, "notes", dds.CBOR[note](), durable)
	fatal(t, err)
	positions, err := dds.NewTopic(t.Context(), p, "positions", dds.CBOR[position](), durable)
	fatal(t, err)
	w, err := positions.Writer(t.Context(), dds.QoS{Durability: qos.Transient})
	fatal(t, err)
	fatal(t, w.Write(t.Context(), position{7, 1.5}))
	fatal(t, w.Dispose(t.Context(), position{Vehicle: 7}))
	r, err := notes.Reader(t.Context(), dds.QoS{History: qos.KeepAll()})
	fatal(t, err)

	out, err := run(t, "", "sub", "positions", join, "--history", "--count=2", "--json")
	fatal(t, err)
	var first, second Sample
	d := json.NewDecoder(strings.NewReader(out))
	fatal(t, d.Decode(&first))
	fatal(t, d.Decode(&second))
	if v, ok := first.Value.(map[string]any); !ok || v["X"] != 1.5 || !first.Valid || second.Valid || first.Writer != w.ID().String() || len(first.Key) != 4 {
		t.Errorf("printed: %+v, %+v", first, second)
	}
	out, err = run(t, "{\"Text\":\"one\"}\n{\"Text\":\"two\"}\n", "pub", "notes", join)
	if err != nil || out != "2 samples written\n" {
		t.Errorf("%q, %v", out, err)
	}
	for _, want := range []string{"one", "two"} {
		if s, err := r.Next(t.Context()); err != nil || s.Value.Text != want {
			t.Errorf("the program reads %+v, %v", s, err)
		}
	}
	if _, err := run(t, "", "pub", "positions", "{}", join); err == nil || !strings.Contains(err.Error(), "keys") {
		t.Errorf("a sample with a key: %v", err)
	}
	if out, err := run(t, "", "pub", "notes", "{", join, "--json"); err == nil || !strings.Contains(err.Error(), "JSON") || !strings.Contains(out, `"written": 0`) {
		t.Errorf("no JSON: %s, %v", out, err)
	}

	out, err = run(t, "", "ls", join, "--json")
	fatal(t, err)
	var all []Listed
	fatal(t, json.Unmarshal([]byte(out), &all))
	if len(all) != 2 || all[1].Topic != "positions" || !all[1].Keyed || len(all[1].Writers) != 1 || len(all[0].Readers) != 1 || all[0].Type != "cbor:note" || all[1].QoS["DURABILITY"]["kind"] != "TRANSIENT" {
		t.Errorf("listed: %s", out)
	}
	out, err = run(t, "", "ls", join)
	if err != nil || !strings.Contains(out, "positions") || !strings.Contains(out, "TRANSIENT") {
		t.Errorf("listed: %s, %v", out, err)
	}
}

func TestTwoCommandsTalk(t *testing.T) {
	_, join := program(t)
	var read string
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		if read, err = run(t, "", "sub", "greetings", join, "--count=2"); err != nil {
			t.Error(err)
		}
	})
	out, err := run(t, "", "pub", "greetings", "hello", "world", join, "--readers=1")
	wg.Wait()
	if err != nil || out != "2 samples written\n" || !strings.Contains(read, "hello\n") || !strings.Contains(read, "world\n") {
		t.Errorf("wrote %q, read %q: %v", out, read, err)
	}
}

func TestAnEndWithoutAWriterNamesNone(t *testing.T) {
	s := sampleOf(dds.TopicInfo{Name: "notes"}, dds.Sample[dds.Encoded]{Info: dds.Info{Position: 7}})
	if text := s.line(); s.Writer != "" || text != "7 – the instance ended" {
		t.Errorf("writer %q, line %q", s.Writer, text)
	}
}

func TestWhyEndpointsDoNotMatchIsExplained(t *testing.T) {
	p, join := program(t)
	notes, err := dds.NewTopic(t.Context(), p, "notes", dds.CBOR[note](), dds.QoS{Durability: qos.Transient})
	fatal(t, err)
	_, err = notes.Writer(t.Context(), dds.QoS{})
	fatal(t, err)
	_, err = notes.Reader(t.Context(), dds.QoS{Durability: qos.Transient})
	fatal(t, err)
	out, err := run(t, "", "explain", "notes", join)
	if err != nil || !strings.Contains(out, "do not match") || !strings.Contains(out, "DURABILITY: incompatible: offered VOLATILE, requested TRANSIENT") {
		t.Errorf("%s, %v", out, err)
	}
	out, err = run(t, "", "explain", "notes", join, "--json")
	var all []Explained
	if err != nil || json.Unmarshal([]byte(out), &all) != nil || len(all) != 1 || all[0].Match || len(all[0].Verdicts) == 0 {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := run(t, "", "explain", "note", join); err == nil || !strings.Contains(err.Error(), `the space has no topic "note"`) {
		t.Errorf("a topic that does not exist: %v", err)
	}
}

func TestFaultsOfTheFlagsAreTold(t *testing.T) {
	for _, args := range [][]string{{"ls", "--timeout=0s"}, {"ls", "--connect=foo"}, {"ls", "--tls-cert=x"}, {"sub"}, {"pub"}, {"explain"}} {
		if _, err := run(t, "", args...); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

// A client reads and writes through a member that serves clients.
func TestAClientIsNoMember(t *testing.T) {
	p, _ := program(t)
	relay, err := member.Serve(t.Context(), member.RelayConfig{Member: p, Endpoint: ripc.Config{Listen: "127.0.0.1:0"}})
	fatal(t, err)
	t.Cleanup(func() { fatal(t, relay.Close()) })
	durable := dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}}
	_, err = dds.NewTopic(t.Context(), p, "notes", dds.CBOR[note](), durable)
	fatal(t, err)
	connect := "--connect=" + relay.Addr()
	out, err := run(t, "{\"Text\":\"one\"}\n{\"Text\":\"two\"}\n", "pub", "notes", connect)
	if err != nil || out != "2 samples written\n" {
		t.Fatalf("%v: %q", err, out)
	}
	out, err = run(t, "", "sub", "notes", "--history", "--count=2", connect)
	if err != nil || strings.Count(out, "\n") != 2 || !strings.Contains(out, "two") {
		t.Fatalf("%v: %q", err, out)
	}
	if out, err = run(t, "", "ls", connect); err != nil || !strings.Contains(out, "cbor:note") {
		t.Fatalf("%v: %q", err, out)
	}
	if n := len(p.Group().View().Members); n != 1 {
		t.Errorf("the group has %d members", n)
	}
	if _, err = run(t, "", "ls", connect, "--serve=127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "--connect") {
		t.Errorf("a client serves: %v", err)
	}
}

func TestPoliciesComeFromAProfile(t *testing.T) {
	p, _ := program(t)
	relay, err := member.Serve(t.Context(), member.RelayConfig{Member: p, Endpoint: ripc.Config{Listen: "127.0.0.1:0"}})
	fatal(t, err)
	t.Cleanup(func() { fatal(t, relay.Close()) })
	connect, file := "--connect="+relay.Addr(), filepath.Join(t.TempDir(), "fleet.json")
	fatal(t, os.WriteFile(file, []byte(`{"alarm": {"DURABILITY": "TRANSIENT", "topic": {"DURABILITY_SERVICE": "KEEP_ALL"}, "reader": {"HISTORY": "KEEP_ALL"}},
"odd": {"DURABILITY": "ETERNAL"}}`), 0o600))
	_, err = run(t, "", "pub", "alarms", "fire", "smoke", connect, "--qos", file+"#alarm")
	if err == nil || !strings.Contains(err.Error(), file+":2: DURABILITY: kind is \"ETERNAL\", and must be one of") {
		t.Fatalf("a fault of another profile: %v", err)
	}
	fatal(t, os.WriteFile(file, []byte(`{"alarm": {"DURABILITY": "TRANSIENT", "topic": {"DURABILITY_SERVICE": "KEEP_ALL"}, "reader": {"HISTORY": "KEEP_ALL"}}}`), 0o600))
	_, err = run(t, "", "pub", "alarms", "fire", "smoke", connect, "--qos", file+"#alarm")
	fatal(t, err)
	if got := p.Topics(); len(got) != 1 || got[0].QoS.Durability != qos.Transient || !got[0].QoS.Service.History.All {
		t.Fatalf("topics: %+v", got)
	}
	out, err := run(t, "", "sub", "alarms", "--count=2", connect, "--qos", file+"#alarm")
	if err != nil || !strings.Contains(out, "fire") || !strings.Contains(out, "smoke") {
		t.Fatalf("%v: %q", err, out)
	}
	for name, why := range map[string]string{file: "FILE#PROFILE", file + "#none": "it has \"alarm\"", "nowhere#x": "no such file"} {
		if _, err = run(t, "", "sub", "alarms", connect, "--qos", name); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
