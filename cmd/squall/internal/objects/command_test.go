package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// account is the state of the tests' object.
type account struct {
	Cents    int64
	Pictures [][]byte
}

type amount struct {
	Cents int64
	Note  []byte
}

// blob is a value whose codec is none that can be converted.
type blob struct{ replicated.Codec[[]byte] }

func (blob) Name() string { return "protobuf" }

// anonymous is a codec without a name.
type anonymous struct{ replicated.Codec[[]byte] }

var (
	deposit = replicated.NewCommand[amount, int64]("deposit")
	picture = replicated.NewCommand[[]byte, int]("picture")
	shown   = replicated.NewQuery[int, []byte]("shown")
	all     = replicated.NewQuery[struct{}, account]("all")
	foreign = replicated.NewCommand[[]byte, []byte]("foreign").Encoded(blob{replicated.Raw()}, replicated.Raw())
	answers = replicated.NewCommand[int, []byte]("answers").Encoded(replicated.CBOR[int](), anonymous{replicated.Raw()})
)

func newAccount(name string) *member.Object[*account] { return newAccounts(name, 0) }

// newAccounts returns an object in shards.
func newAccounts(name string, shards int) *member.Object[*account] {
	return member.New(squall.SubgroupConfig{Name: name, Shards: shards}, func() *account { return &account{} },
		member.Handle(deposit, func(a *account, _ *member.Context, by amount) (int64, error) {
			if by.Cents <= 0 {
				return 0, fmt.Errorf("%d cents cannot be deposited", by.Cents)
			}
			if by.Note != nil {
				a.Pictures = append(a.Pictures, by.Note)
			}
			a.Cents += by.Cents
			return a.Cents, nil
		}),
		member.Handle(picture, func(a *account, _ *member.Context, data []byte) (int, error) {
			a.Pictures = append(a.Pictures, bytes.Clone(data))
			return len(a.Pictures), nil
		}),
		member.Handle(shown, func(a *account, _ *member.Context, n int) ([]byte, error) {
			if n < 0 || n >= len(a.Pictures) {
				return nil, errors.New("no such picture")
			}
			return a.Pictures[n], nil
		}),
		member.Handle(all, func(a *account, _ *member.Context, _ struct{}) (account, error) { return *a, nil }),
		member.Handle(foreign, func(a *account, _ *member.Context, data []byte) ([]byte, error) { return data, nil }),
		member.Handle(answers, func(a *account, _ *member.Context, _ int) ([]byte, error) {
			a.Cents = -1
			return nil, nil
		}))
}

// serve runs a group of one member with objects, and returns the address for clients.
func serve(t *testing.T, cluster string, server member.ServerConfig, objects ...member.AnyObject) string {
	t.Helper()
	ctx := testutil.Within(t)
	g, err := member.Open(ctx, squall.Config{
		Cluster: cluster, ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, objects...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := g.Close(closing); err != nil {
			t.Error(err)
		}
	})
	server.Endpoint.Listen = "127.0.0.1:0"
	s, err := member.Serve(ctx, server, objects...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Addr()
}

// run executes a command, and returns what it printed.
func run(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := &cobra.Command{Use: "squall", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(NewListCommand(), NewCallCommand())
	root.SetArgs(args)
	root.SetIn(strings.NewReader(in))
	root.SetOut(&out)
	root.SetErr(io.Discard)
	err := root.ExecuteContext(testutil.Within(t))
	return out.String(), err
}

func TestObjectsAreListed(t *testing.T) {
	addr := serve(t, "bank", member.ServerConfig{}, newAccount("ann"), newAccount("bob"))
	if _, err := run(t, "", "call", "--connect", addr, "bob", "deposit", `{"Cents":1}`); err != nil {
		t.Fatal(err)
	}
	text, err := run(t, "", "objects", "--connect", addr, "--json")
	var got []Listed
	if err != nil || json.Unmarshal([]byte(text), &got) != nil || len(got) != 2 {
		t.Fatalf("%s, %v", text, err)
	}
	bob := got[1]
	if bob.Object != "bob" || bob.Cluster != "bank" || bob.Member != 1 || !slices.Equal(bob.Members, []squall.NodeID{1}) || !strings.Contains(bob.Version, ":") ||
		bob.Executed != 1 || bob.Sessions != 0 || bob.Persistent || len(bob.Operations) != 6 ||
		bob.Operations[0] != (Operation{"all", "query", true, "cbor", "cbor", false}) || bob.Operations[3] != (Operation{"foreign", "command", true, "protobuf", "raw", false}) {
		t.Errorf("%+v", bob)
	}
	text, err = run(t, "", "objects", "--connect", addr)
	for _, want := range []string{"ann of the group bank: version ", "bob of the group bank: version ", "1 command executed, 0 sessions", "deposit", "protobuf", "?"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("no %q in %s, %v", want, text, err)
		}
	}
	if text, err := run(t, "", "objects", "--connect", addr, "--cluster", "another"); err != nil || text != "no objects\n" {
		t.Errorf("another group: %q, %v", text, err)
	}
	if text, err := run(t, "", "objects", "--connect", addr, "--cluster", "another", "--json"); err != nil || text != "[]\n" {
		t.Errorf("another group: %q, %v", text, err)
	}
}

func TestShardsAreListedAndCalled(t *testing.T) {
	addr := serve(t, "bank", member.ServerConfig{}, newAccounts("accounts", 2), newAccount("ann")) // a member: the shard 1 has none
	keys := [2]string{}
	for i := 0; keys[0] == "" || keys[1] == ""; i++ {
		keys[replicated.ShardOf(fmt.Sprint(i), 2)] = fmt.Sprint(i)
	}
	for _, step := range []struct {
		args        []string
		want, fault string
	}{
		{args: []string{"accounts", "deposit", `{"Cents":1}`, "--key", keys[0]}, want: "1\n"},
		{args: []string{"accounts", "deposit", `{"Cents":2}`, "--shard", "0"}, want: "3\n"},
		{args: []string{"accounts", "all", "--shard", "0", "--local"}, want: "{\n  \"Cents\": 3,\n  \"Pictures\": null\n}\n"},
		{args: []string{"accounts", "all"}, fault: `object "accounts" is in 2 shards: give --key or --shard`},
		{args: []string{"accounts", "all", "--shard", "2"}, fault: `--shard 2: object "accounts" has the shards 0 to 1`},
		{args: []string{"accounts", "all", "--shard", "0", "--key", "a"}, fault: "give one of --key and --shard"},
		{args: []string{"ann", "all", "--shard", "0"}, fault: `--key and --shard are for objects in shards: "ann" is in none`},
	} {
		got, err := run(t, "", append([]string{"call", "--connect", addr}, step.args...)...)
		if step.fault == "" && (err != nil || got != step.want) || step.fault != "" && (err == nil || !strings.Contains(err.Error(), step.fault)) {
			t.Errorf("%q: %q, %v; want %q, or an error with %q", step.args, got, err, step.want, step.fault)
		}
	}
	for timeout := 200 * time.Millisecond; ; timeout *= 2 { // on a busy machine the first answer takes long
		_, err := run(t, "", "call", "--connect", addr, "accounts", "all", "--key", keys[1], "--timeout", timeout.String())
		if err != nil && strings.Contains(err.Error(), `no member was found that serves shard 1 of object "accounts"`) {
			break
		} else if timeout > 5*time.Second {
			t.Fatalf("a call of a shard without members: %v", err)
		}
	}
	text, err := run(t, "", "objects", "--connect", addr)
	for _, want := range []string{"member 1 of 1 in shard 0; 2 commands", "shard 0: members 1\nshard 1: members -\n"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("no %q in %s, %v", want, text, err)
		}
	}
	text, err = run(t, "", "objects", "--connect", addr, "--json")
	var got []Listed
	if err != nil || json.Unmarshal([]byte(text), &got) != nil || len(got) != 2 || len(got[0].Shards) != 2 || got[0].Shards[1].Shard != 1 || len(got[1].Shards) != 0 {
		t.Errorf("%s, %v", text, err)
	}
}

func TestOperationsAreCalled(t *testing.T) {
	object := newAccount("ann")
	addr := serve(t, "bank", member.ServerConfig{}, object)
	for _, step := range []struct {
		args     []string
		in, want string
		fault    string // in the error
	}{
		{args: []string{"ann", "deposit", `{"Cents":100}`}, want: "100\n"},
		{args: []string{"ann", "deposit", `{"Cents":1,"Note":{"$bytes":"AAH/"}}`}, want: "101\n"},
		{args: []string{"ann", "deposit", "-"}, in: ` {"Cents":9} `, want: "110\n"},
		{args: []string{"ann", "deposit", `{"Cents":-5}`}, fault: "-5 cents cannot be deposited"},
		{args: []string{"ann", "deposit"}, fault: "0 cents cannot be deposited"},
		{args: []string{"ann", "deposit", `{"Cents":"many"}`}, fault: "decoding the arguments"},
		{args: []string{"ann", "deposit", "ten"}, fault: `the arguments of "deposit": "ten" is not JSON`},
		{args: []string{"ann", "deposit", "1 2"}, fault: "more than one JSON value"},
		{args: []string{"ann", "picture", "a text"}, want: "2\n"},
		{args: []string{"ann", "picture", "-"}, in: "from the input", want: "3\n"},
		{args: []string{"ann", "picture", "--base64", "/wA="}, want: "4\n"},
		{args: []string{"ann", "picture", "--base64", "?"}, fault: "illegal base64"},
		{args: []string{"ann", "shown", "1"}, want: "a text"},
		{args: []string{"ann", "shown", "2", "--local"}, want: "from the input"},
		{args: []string{"ann", "shown", "3", "--base64"}, want: "/wA=\n"},
		{args: []string{"ann", "shown", "4"}, fault: "no such picture"},
		{args: []string{"ann", "deposit", "{}", "--base64"}, fault: `--base64 is for raw bytes: "deposit" has none`},
		{args: []string{"ann", "deposit", "{}", "--local"}, fault: `--local is for queries: "deposit" is a command`},
		{args: []string{"ann", "foreign", "x"}, fault: `the arguments of "foreign": the encoding is protobuf`},
		{args: []string{"ann", "answers", "1"}, fault: `the reply of "answers": the codec has no name`}, // it is not executed
		{args: []string{"ann", "deposits", "1"}, fault: `object "ann" has no operation "deposits": it has query all, command answers, command deposit, `},
		{args: []string{"anna", "deposit", "1"}, fault: `no object "anna": there is ann`},
		{args: []string{"ann", "deposit", "1", "--cluster", "another"}, fault: `no object "ann": the member serves none`},
		{args: nil, fault: "OBJECT is missing"},
		{args: []string{"ann"}, fault: `OPERATION is missing: the name of an operation of "ann"`},
		{args: []string{"ann", "deposit", "{", "}"}, fault: `"}" is one argument too many`},
	} {
		got, err := run(t, step.in, append([]string{"call", "--connect", addr}, step.args...)...)
		switch {
		case step.fault == "" && (err != nil || got != step.want):
			t.Errorf("%q: %q, %v; want %q", step.args, got, err, step.want)
		case step.fault != "" && (err == nil || !strings.Contains(err.Error(), step.fault) || got != ""):
			t.Errorf("%q: %q, %v; want an error with %q", step.args, got, err, step.fault)
		}
	}
	// The error of a handler is its text and nothing else.
	if _, err := run(t, "", "call", "--connect", addr, "ann", "shown", "9"); err == nil || err.Error() != "no such picture" {
		t.Errorf("the error is %v", err)
	}
	text, err := run(t, "", "call", "--connect", addr, "ann", "all")
	var got map[string]any
	if err != nil || json.Unmarshal([]byte(text), &got) != nil || got["Cents"] != 110.0 || fmt.Sprint(got["Pictures"].([]any)[0]) != "map[$bytes:AAH/]" {
		t.Errorf("all: %s, %v", text, err)
	}
	if n := object.Sessions(); n != 0 {
		t.Errorf("%d sessions were left", n)
	}
}

// The secret and the certificates that members want are given by flags.
func TestMembersThatWantCertificatesAreCalled(t *testing.T) {
	authority := testutil.NewAuthority(t)
	secret := []byte("a secret of enough bytes for all of them")
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	object := newAccount("ann")
	addr := serve(t, "bank", member.ServerConfig{
		Endpoint: ripc.Config{TLS: authority.TLS(), Secret: secret},
		Authorize: func(a member.Access) error {
			if a.Peer.Identity != "CN=node" || a.Name == "picture" {
				return errors.New("not for this client")
			}
			return nil
		},
	}, object)
	cert, key, ca := authority.Files()
	flags := []string{"--connect", addr, "--secret-file", file, "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca, "ann"}
	with := func(args ...string) []string { return append(slices.Concat([]string{"call"}, flags), args...) }
	if text, err := run(t, "", with("deposit", `{"Cents":3}`)...); err != nil || text != "3\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := run(t, "", with("picture", "x")...); !errors.Is(err, replicated.ErrDenied) || !strings.Contains(err.Error(), "not for this client") {
		t.Errorf("%v", err)
	}
	if _, err := run(t, "", "objects", "--connect", addr, "--timeout", "300ms"); err == nil || !strings.Contains(err.Error(), "only one of the two ends uses TLS") {
		t.Errorf("without a certificate: %v", err)
	}
	if _, err := run(t, "", "objects", "--connect", addr, "--tls-cert", cert); err == nil || !strings.Contains(err.Error(), "give all three or none") {
		t.Errorf("with a third of it: %v", err)
	}
	if _, err := run(t, "", "objects", "--connect", addr, "--secret-file", file+"x"); err == nil || !strings.Contains(err.Error(), "--secret-file") {
		t.Errorf("without the secret: %v", err)
	}
}

// An object that two groups have is called by the name of its group; another member is asked when
// the first one is not there.
func TestTheFlagsSayWhichMembersAreAsked(t *testing.T) {
	if _, err := run(t, "", "objects"); err == nil || !strings.Contains(err.Error(), "--connect is missing") {
		t.Errorf("no address: %v", err)
	}
	if _, err := run(t, "", "objects", "--connect", "127.0.0.1:1", "--timeout", "0s"); err == nil || !strings.Contains(err.Error(), "must be more than 0") {
		t.Errorf("no time: %v", err)
	}
	if _, err := run(t, "", "objects", "--connect", "127.0.0.1:1", "--timeout", "200ms"); err == nil || !strings.Contains(err.Error(), "no answer from 127.0.0.1:1 within 200ms") {
		t.Errorf("no member: %v", err)
	}
	addr := serve(t, "bank", member.ServerConfig{}, newAccount("ann"))
	if text, err := run(t, "", "call", "--connect", "127.0.0.1:1,"+addr, "ann", "deposit", `{"Cents":3}`); err != nil || text != "3\n" {
		t.Errorf("the second of two members: %q, %v", text, err)
	}
	both := []replicated.ObjectInfo{{Name: "ann", Cluster: "bank"}, {Name: "ann", Cluster: "shop"}}
	if _, err := choose(both, "ann"); err == nil || !strings.Contains(err.Error(), "give --cluster, one of bank, shop") {
		t.Errorf("two groups: %v", err)
	}
}

// A command that is not answered in time may have been executed, and the error says so.
func TestACommandWithoutAnAnswerMayBeExecuted(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	slow := replicated.NewCommand[int, int]("slow")
	object := member.New(squall.SubgroupConfig{Name: "ann"}, func() *account { return &account{} },
		member.Handle(slow, func(a *account, _ *member.Context, n int) (int, error) {
			close(begun)
			<-finish
			return n, nil
		}))
	addr := serve(t, "bank", member.ServerConfig{}, object)
	_, err := run(t, "", "call", "--connect", addr, "--timeout", "2s", "ann", "slow", "1")
	close(finish)
	select {
	case <-begun:
	default:
		t.Error("it was not executed")
	}
	if err == nil || !strings.Contains(err.Error(), "the command may be executed or not: no answer from "+addr+" within 2s") {
		t.Errorf("%v", err)
	}
}

// With --local a member that no other one answers runs a query; without, it does not, unless it
// shares memory with the others.
func TestALocalQueryNeedsNoOtherMember(t *testing.T) {
	ctx := testutil.Within(t)
	release, blocked := make(chan struct{}), make(chan struct{})
	read := replicated.NewQuery[int, int]("read")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := l.Addr().String()
	l.Close()
	var opening sync.WaitGroup
	var groups [3]*squall.Group
	var errs [3]error
	var objects [3]*member.Object[*account]
	for i := range groups {
		objects[i] = member.New(squall.SubgroupConfig{Name: "ann"}, func() *account { return &account{} },
			member.Handle(read, func(*account, *member.Context, int) (int, error) { return i, nil }))
		cfg := squall.Config{
			Cluster: "bank", ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", Join: []string{first}, InitialMembers: 3,
			FailAfter: time.Minute, Fabric: squall.FabricTCP, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
		if i == 0 {
			cfg.Listen = first
		}
		opening.Go(func() { groups[i], errs[i] = member.Open(ctx, cfg, objects[i]) })
	}
	opening.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for _, g := range groups {
			all.Go(func() { _ = g.Close(closing) })
		}
		all.Wait()
	})
	s, err := member.Serve(ctx, member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, objects[0])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	letGo := sync.OnceFunc(func() { close(release) })
	defer letGo()
	call := func(args ...string) (string, error) {
		return run(t, "", append([]string{"call", "--connect", s.Addr(), "--timeout", "1s", "ann"}, args...)...)
	}
	if text, err := call("read", "1"); err != nil || text != "0\n" {
		t.Fatalf("%q, %v", text, err)
	}
	for _, o := range objects[1:] {
		o.Subgroup().ConfirmFunc(func(error) { // on the loop, which does nothing else meanwhile
			blocked <- struct{}{}
			<-release
		})
	}
	<-blocked
	<-blocked
	if text, err := call("read", "1", "--local"); err != nil || text != "0\n" {
		t.Errorf("local: %q, %v", text, err)
	}
	if text, err := call("read", "1"); err == nil || !strings.Contains(err.Error(), "no answer from") {
		t.Errorf("linearizable: %q, %v", text, err)
	}
	letGo()
	if text, err := call("read", "1", "--timeout", "10s"); err != nil || text != "0\n" {
		t.Errorf("linearizable, when the others answer: %q, %v", text, err)
	}
}

func TestTheShellCompletesObjectsAndOperations(t *testing.T) {
	addr := serve(t, "bank", member.ServerConfig{}, newAccount("ann"), newAccount("bob"))
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{"--connect", addr, ""}, "ann\tobject of the group bank\nbob\tobject of the group bank\n:4\n"},
		{[]string{"--connect", addr, "b"}, "bob\tobject of the group bank\n:4\n"},
		{[]string{"--connect", addr, "bob", "a"}, "all\tquery\nanswers\tcommand\n:4\n"},
		{[]string{"--connect", addr, "bob", "all", ""}, ":4\n"},
		{[]string{"--connect", addr, "none", ""}, ":4\n"},
		{[]string{"--connect", addr, "--cluster", "another", ""}, ":4\n"},
		{[]string{""}, ":4\n"},
		{[]string{"--connect", "127.0.0.1:1", "--timeout", "100ms", ""}, ":4\n"},
	} {
		if got, err := run(t, "", append([]string{cobra.ShellCompRequestCmd, "call"}, c.line...)...); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.line, got, err, c.want)
		}
	}
}
