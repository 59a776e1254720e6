package rtps_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/rtps"
	"github.com/squall-go/squall/internal/testutil"
)

// twoMembers returns the two members of a new group.
func twoMembers(t *testing.T) (all [2]*member.Member) {
	t.Helper()
	addr := testutil.FreeAddress(t)
	opened := make(chan error, len(all))
	for i := range all {
		c := squall.Config{Cluster: "test", ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: len(all), Logger: quiet}
		if i == 0 {
			c.Listen = addr
		}
		go func() {
			var err error
			all[i], err = member.Open(t.Context(), member.Config{Group: c, Subgroup: squall.SubgroupConfig{Name: "space"}})
			opened <- err
		}()
	}
	for range all {
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { closeMembers(t, all[:]) })
	return all
}

// closeMembers closes members of a group at the same time.
func closeMembers(t *testing.T, all []*member.Member) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	closed := make(chan error, len(all))
	for _, p := range all {
		go func() { closed <- p.Close(ctx) }()
	}
	for range all {
		if err := <-closed; err != nil {
			t.Errorf("closing a member: %v", err)
		}
	}
}

// twoGateways returns the domains of two gateways, each at another member of one group.
func twoGateways(t *testing.T, change func(*rtps.Config)) (domains [2]int, gateways [2]*rtps.Gateway) {
	t.Helper()
	for i, p := range twoMembers(t) {
		domains[i] = newDomain()
		cfg := rtps.Config{Member: p, Domain: domains[i], Interface: "lo", Index: rtps.AnyIndex, Logger: logger(t)}
		change(&cfg)
		g, err := rtps.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeGateway(t, g) })
		gateways[i] = g
	}
	return domains, gateways
}

func typeOf(t testing.TB, text string) *rtps.Type {
	t.Helper()
	kind, err := rtps.ParseType(text)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// Pings of ddsperf go through two gateways to another ddsperf, and its pongs come back. ddsperf
// writes pongs for participants whose user data are those of a ddsperf, in a partition for each of
// them: so the gateways have such user data, and offer any partition. A ddsperf that only answers
// misses the pings of its own kind, of which a gateway has no writer, and says so with its status.
// The first ddsperf ends early: the other one must not forget the gateway because writers of it are
// gone.
func TestPingsAndPongsOfDdsperfGoThroughTwoGateways(t *testing.T) {
	testutil.Long(t)
	kind := typeOf(t, "KeyedSeq { unsigned long seq; @key unsigned long keyval; sequence<octet> baggage; }")
	for _, other := range [][]string{{"pong"}, {"ping", "20Hz"}} {
		t.Run(other[0], func(t *testing.T) {
			domains, gateways := twoGateways(t, func(c *rtps.Config) {
				c.UserData = []byte("DDSPerf:0:1:gateway")
				for _, name := range []string{"DDSPerfRPingKS", "DDSPerfRPongKS"} {
					c.Topics = append(c.Topics, rtps.Topic{Name: name, Type: kind, Direction: rtps.Both, PartitionsOut: []string{"*"}})
				}
			})
			far := ddsperf(t, domains[1], append([]string{"-D", "4"}, other...)...)
			near := ddsperf(t, domains[0], "-D", "2.5", "ping", "size", "100")
			out, back := near.wait(t, 20*time.Second), far.wait(t, 20*time.Second)
			t.Logf("%s\n%s\n%+v\n%+v", out, back, gateways[0].Stats(), gateways[1].Stats())
			n := 0
			for _, m := range regexp.MustCompile(`size 100 mean .* cnt (\d+)`).FindAllStringSubmatch(out, -1) {
				more, err := strconv.Atoi(m[1])
				if err != nil {
					t.Fatal(err)
				}
				n += more
			}
			if n < 5 {
				t.Fatalf("%d pings came back: %v", n, near.err)
			}
			if other[0] == "ping" && (near.err != nil || far.err != nil) {
				t.Fatalf("the programs end with %v and %v", near.err, far.err)
			}
			if strings.Contains(back, "gateway:1: gone") {
				t.Fatal("the other program has forgotten the gateway")
			}
			for i, g := range gateways { // beside samples, instances end
				if s, o := g.Stats(), gateways[1-i].Stats(); s.Written > o.Received+10 {
					t.Fatalf("RG3: a gateway wrote %d samples, and the other one received %d", s.Written, o.Received)
				}
			}
		})
	}
}

// build makes a program of testdata/guest.c and what idlc makes of testdata/guest.idl, or of other
// sources, once for all tests.
type build struct {
	once sync.Once
	make func(dir string) (missing string, err error)
	path string
	why  string
	err  error
}

// program returns the path of the program, or skips the test if what it needs is not installed.
func (b *build) program(t *testing.T) string {
	t.Helper()
	b.once.Do(func() {
		if b.path, b.err = os.MkdirTemp(built, "guest"); b.err == nil {
			b.why, b.err = b.make(b.path)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	if b.why != "" {
		t.Skip(b.why)
	}
	return filepath.Join(b.path, "guest")
}

// built is the folder of the programs, which TestMain removes.
var built string

// compile runs commands in a folder. The reason is empty, or says which command or header is not
// installed.
func compile(dir string, header string, all ...[]string) (missing string, err error) {
	if _, err := os.Stat(header); err != nil {
		return header + " is not there", nil
	}
	for _, c := range all {
		if _, err := exec.LookPath(c[0]); err != nil {
			return c[0] + " is not installed", nil
		}
		cmd := exec.Command(c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", c, err, out)
		}
	}
	return "", nil
}

func testdata(name string) string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return filepath.Join(dir, "testdata", name)
}

const cycloneHeader = "/usr/include/dds/dds.h" // Debian: cyclonedds-dev

var cycloneGuest = build{make: func(dir string) (string, error) {
	return compile(dir, cycloneHeader,
		[]string{"idlc", "-o", dir, testdata("guest.idl")},
		[]string{"cc", "-O1", "-I", dir, "-o", "guest", testdata("guest.c"), filepath.Join(dir, "guest.c"), "-lddsc"})
}}

// domainURI is the configuration of CycloneDDS on loopback whose default is a domain.
func domainURI(domain int) string {
	return "CYCLONEDDS_URI=" + strings.Replace(uri(), `id="any"`, fmt.Sprintf(`id="%d"`, domain), 1)
}

// run starts a program, and ends it with the test.
func run(t testing.TB, env, path string, args ...string) *program {
	t.Helper()
	r := &program{cmd: exec.Command(path, args...), done: make(chan struct{})}
	if env != "" {
		r.cmd.Env = append(os.Environ(), env)
	}
	r.start(t)
	return r
}

// succeeds waits until a program has ended well, and returns what it printed.
func (r *program) succeeds(t *testing.T) string {
	t.Helper()
	out := r.wait(t, 30*time.Second)
	if r.err != nil {
		t.Fatalf("%v: %v\n%s", r.cmd.Args, r.err, out[max(len(out)-2000, 0):])
	}
	return out
}

const (
	noteType   = "Guest::Note { @key long author; long number; string text; }"
	parcelType = "Guest::Parcel { sequence<octet> content; }"
)

// note is a Guest::Note.
type note struct {
	Author int32 `dds:"key"`
	Number int32
	Text   string
	_      struct{} `dds:"name=Guest::Note"`
}

// guests is a pair of domains with gateways of two members between them.
type guests struct {
	domains  [2]int
	gateways [2]*rtps.Gateway
}

// newGuests opens the gateways. A writer in the space has writers in both domains, so that it is
// known when readers match.
func newGuests(t *testing.T) *guests {
	var g guests
	var space *member.Member
	g.domains, g.gateways = twoGateways(t, func(c *rtps.Config) {
		space = c.Member
		c.Topics = []rtps.Topic{
			{Name: "Notes", Type: typeOf(t, noteType), Direction: rtps.Both},
			{Name: "Parcels", Type: typeOf(t, parcelType), Direction: rtps.Both},
		}
	})
	codec, err := dds.XCDR[note](cdr.XCDR1)
	if err != nil {
		t.Fatal(err)
	}
	notes, err := dds.NewTopic(t.Context(), space, "Notes", codec, dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := notes.Writer(t.Context(), dds.QoS{}); err != nil {
		t.Fatal(err)
	}
	return &g
}

// readers waits until a gateway has so many readers that match.
func (g *guests) readers(t *testing.T, side, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); g.gateways[side].Stats().Readers < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the readers do not match: %+v", g.gateways[side].Stats())
		}
	}
}

// notesOf returns the numbers of an author's notes in what a guest printed, and its last state.
func notesOf(author int, out string) (numbers []int, state string) {
	for _, line := range strings.Split(out, "\n") {
		rest, ok := strings.CutPrefix(line, fmt.Sprintf("%d:", author))
		if !ok {
			continue
		}
		first, _, _ := strings.Cut(rest, " ")
		if n, err := strconv.Atoi(first); err == nil {
			numbers = append(numbers, n)
		} else {
			state = rest
		}
	}
	return numbers, state
}

// Programs of a DDS in two domains write and read notes. Each reader gets the notes of both
// writers, of its own domain and through two gateways of the other one, in their order and once:
// nothing goes round (RG3).
func notesCross(t *testing.T, start func(t *testing.T, domain int, args ...string) *program) {
	const n = 200
	g := newGuests(t)
	var hear, say [2]*program
	for i, d := range g.domains {
		hear[i] = start(t, d, "hear", strconv.Itoa(2*n))
		g.readers(t, i, 1)
	}
	for i, d := range g.domains {
		say[i] = start(t, d, "say", strconv.Itoa(i+1), strconv.Itoa(n), "2") // the gateway, and the reader of its domain
	}
	for i := range say {
		say[i].succeeds(t)
		out := hear[i].succeeds(t)
		for author := 1; author <= 2; author++ {
			numbers, _ := notesOf(author, out)
			if len(numbers) != n {
				t.Fatalf("RG2, RG3: domain %d has %d notes of author %d", i, len(numbers), author)
			}
			for at, number := range numbers {
				if at != number {
					t.Fatalf("RG2: note %d of author %d in domain %d has the number %d", at, author, i, number)
				}
			}
		}
	}
}

// stateCrosses has the end of an instance go through two gateways.
func stateCrosses(t *testing.T, start func(t *testing.T, domain int, args ...string) *program) {
	g := newGuests(t)
	states := start(t, g.domains[1], "states")
	g.readers(t, 1, 1)
	start(t, g.domains[0], "say", "3", "5").succeeds(t)
	if numbers, state := notesOf(3, states.succeeds(t)); len(numbers) != 5 || state != "disposed" {
		t.Fatalf("%d notes, and the instance is then %q", len(numbers), state)
	}
}

func startCyclone(t *testing.T, domain int, args ...string) *program {
	t.Helper()
	return run(t, domainURI(domain), cycloneGuest.program(t), args...)
}

func TestNotesOfCycloneDDSGoThroughTwoGateways(t *testing.T) {
	testutil.Long(t)
	cycloneGuest.program(t)
	notesCross(t, startCyclone)
}

func TestTheEndOfAnInstanceGoesThroughTwoGateways(t *testing.T) {
	testutil.Long(t)
	cycloneGuest.program(t)
	stateCrosses(t, startCyclone)
}

// Samples without keys, in partitions, small ones and ones in fragments, go through two gateways
// and come back.
func TestRoundTripsOfCycloneDDSThroughTwoGateways(t *testing.T) {
	testutil.Long(t)
	cycloneGuest.program(t)
	g := newGuests(t)
	startCyclone(t, g.domains[1], "echo")
	for _, size := range []string{"100", "40000"} {
		out := startCyclone(t, g.domains[0], "ask", "50", size).succeeds(t)
		if out != "50 parcels came back" {
			t.Fatalf("with %s bytes: %s", size, out)
		}
	}
}

var fastGuest = build{make: func(dir string) (string, error) {
	return compile(dir, "/usr/include/fastdds/dds/topic/TopicDataType.hpp", // Debian: libfastrtps-dev
		[]string{"c++", "-std=c++14", "-o", "guest", testdata("guest.cpp"), "-lfastrtps", "-lfastcdr"})
}}

func startFast(t *testing.T, domain int, args ...string) *program {
	t.Helper()
	return run(t, "", fastGuest.program(t), append([]string{strconv.Itoa(domain), "127.0.0.1"}, args...)...)
}

func TestNotesOfFastDDSGoThroughTwoGateways(t *testing.T) {
	testutil.Long(t)
	fastGuest.program(t)
	notesCross(t, startFast)
}

func TestTheEndOfAnInstanceOfFastDDSGoesThroughTwoGateways(t *testing.T) {
	testutil.Long(t)
	fastGuest.program(t)
	stateCrosses(t, startFast)
}

// A writer of one implementation reaches a reader of the other one.
func TestNotesGoBetweenFastDDSAndCycloneDDS(t *testing.T) {
	testutil.Long(t)
	fastGuest.program(t)
	cycloneGuest.program(t)
	for _, c := range []struct {
		name string
		from func(*testing.T, int, ...string) *program
		to   func(*testing.T, int, ...string) *program
	}{{"from=fast", startFast, startCyclone}, {"from=cyclone", startCyclone, startFast}} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuests(t)
			states := c.to(t, g.domains[1], "states")
			g.readers(t, 1, 1)
			c.from(t, g.domains[0], "say", "3", "5").succeeds(t)
			if numbers, state := notesOf(3, states.succeeds(t)); len(numbers) != 5 || state != "disposed" {
				t.Fatalf("%d notes, and the instance is then %q", len(numbers), state)
			}
		})
	}
}

// sourceVariable is the folder with the sources of CycloneDDS 0.10, of which the examples are
// built.
const sourceVariable = "SQUALL_CYCLONEDDS_SOURCE"

// example builds a program of the examples of CycloneDDS.
func example(t *testing.T, folder, idl, source string) string {
	t.Helper()
	root := os.Getenv(sourceVariable)
	if root == "" {
		t.Skip(sourceVariable + " does not name a folder with the sources of CycloneDDS")
	}
	dir, in := t.TempDir(), filepath.Join(root, "examples", folder)
	missing, err := compile(dir, cycloneHeader,
		[]string{"idlc", "-o", dir, filepath.Join(in, idl+".idl")},
		[]string{"cc", "-I", dir, "-o", "guest", filepath.Join(in, source), filepath.Join(dir, idl+".c"), "-lddsc"})
	if err != nil {
		t.Fatal(err)
	}
	if missing != "" {
		t.Skip(missing)
	}
	return filepath.Join(dir, "guest")
}

// The HelloWorld of CycloneDDS: its publisher writes one sample as soon as the gateway's reader
// matches, and ends. The subscriber is in another domain.
func TestTheHelloWorldOfCycloneDDSGoesThroughTwoGateways(t *testing.T) {
	testutil.Long(t)
	publisher, subscriber := example(t, "helloworld", "HelloWorldData", "publisher.c"), example(t, "helloworld", "HelloWorldData", "subscriber.c")
	const name = "HelloWorldData_Msg"
	var space *member.Member
	domains, gateways := twoGateways(t, func(c *rtps.Config) {
		space = c.Member
		c.Topics = []rtps.Topic{{Name: name, Type: typeOf(t, "HelloWorldData::Msg { @key long userID; string message; }"), Direction: rtps.Both}}
	})
	hello, err := dds.NewTopic(t.Context(), space, name, dds.EncodedAs("xcdr:HelloWorldData::Msg", true), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hello.Writer(t.Context(), dds.QoS{}); err != nil { // so that it is known when the subscriber is there
		t.Fatal(err)
	}
	sub := run(t, domainURI(domains[1]), subscriber)
	(&guests{domains, gateways}).readers(t, 1, 1)
	run(t, domainURI(domains[0]), publisher).succeeds(t)
	if out := sub.succeeds(t); !strings.Contains(out, "Message (1, Hello World)") {
		t.Fatal(out)
	}
}

func TestTheRoundTripOfCycloneDDSGoesThroughTwoGateways(t *testing.T) {
	testutil.Long(t)
	ping, pong := example(t, "roundtrip", "RoundTrip", "ping.c"), example(t, "roundtrip", "RoundTrip", "pong.c")
	domains, gateways := twoGateways(t, func(c *rtps.Config) {
		c.Topics = []rtps.Topic{{Name: "RoundTrip", Type: typeOf(t, "RoundTripModule::DataType { sequence<octet> payload; }"), Direction: rtps.Both}}
	})
	run(t, domainURI(domains[1]), pong)
	for _, size := range []string{"0", "20000"} {
		out := run(t, domainURI(domains[0]), ping, size, "100", "20").succeeds(t)
		t.Logf("%s\n%+v", out, gateways[0].Stats())
		if !regexp.MustCompile(`(?m)^# Overall\s+100 `).MatchString(out) {
			t.Fatal(out)
		}
	}
}

// Samples that cannot be decoded are counted, and acknowledged as soon as all before them are:
// their writer does not wait for ever.
func TestSamplesThatAreRefusedAreAcknowledged(t *testing.T) {
	testutil.Long(t)
	cycloneGuest.program(t)
	p, domain := space(t, nil), newDomain()
	g := gateway(t, p, domain, rtps.Topic{Name: "Notes", Type: typeOf(t, "Guest::Note { @key long author; long number; string<3> text; }"), Direction: rtps.In})
	startCyclone(t, domain, "say", "1", "5").succeeds(t)
	if s := g.Stats(); s.Malformed != 5 || s.Received != 2 { // a dispose and an unregister have no text
		t.Fatalf("%+v", s)
	}
}
