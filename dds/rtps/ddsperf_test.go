package rtps_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
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
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
	"github.com/squall-go/squall/internal/testutil"
)

// keyedSeq is the type of ddsperf's samples.
type keyedSeq struct {
	Seq     uint32
	Keyval  uint32 `dds:"key"`
	Baggage []byte
	_       struct{} `dds:"name=KeyedSeq"`
}

const dataTopic = "DDSPerfRDataKS"

// cyclone is the configuration of CycloneDDS on loopback: no multicast, and other participants at
// the first indices.
const cyclone = `<CycloneDDS><Domain id="any"><General><Interfaces><NetworkInterface name="lo"/></Interfaces><AllowMulticast>false</AllowMulticast></General>` +
	`<Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer Address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>`

// domains are the domain ids that tests use, from 100 to 232, which is the highest one. Tests that
// run at the same time, also tests of other packages, use different ones, so that their
// participants do not find each other.
var domains = struct {
	sync.Mutex
	next int
}{next: rand.IntN(133)}

func newDomain() int {
	domains.Lock()
	defer domains.Unlock()
	domains.next = (domains.next + 1) % 133
	return 100 + domains.next
}

// program is a run of a program of another DDS.
type program struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
	err  error
}

// ddsperf starts the program of CycloneDDS, and ends it with the test.
func ddsperf(t testing.TB, domain int, args ...string) *program {
	t.Helper()
	path, err := exec.LookPath("ddsperf")
	if err != nil {
		t.Skip("ddsperf is not installed (Debian: cyclonedds-tools)")
	}
	return run(t, "CYCLONEDDS_URI="+uri(), path, append([]string{"-i", strconv.Itoa(domain)}, args...)...)
}

// start starts the program, and ends it with the test.
func (r *program) start(t testing.TB) {
	t.Helper()
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		r.err = r.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
	})
}

// complaints matches what ddsperf prints when it takes samples of another program for pings.
var complaints = regexp.MustCompile(`(?m)^get_pong_writer: .*\n`)

// wait waits until the program has ended, and returns what it printed.
func (r *program) wait(t testing.TB, most time.Duration) string {
	t.Helper()
	select {
	case <-r.done:
		return strings.TrimSpace(complaints.ReplaceAllString(r.out.String(), ""))
	case <-time.After(most):
		t.Fatalf("%v did not end within %v", r.cmd.Args, most)
		return ""
	}
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func logger(t testing.TB) *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	return quiet
}

// space returns a member of a new group.
func space(t testing.TB, change func(*member.Config)) *member.Member {
	t.Helper()
	cfg := member.Config{
		Group:    squall.Config{Cluster: "test", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet},
		Subgroup: squall.SubgroupConfig{Name: "space"},
	}
	if change != nil {
		change(&cfg)
	}
	if cfg.Subgroup.Mode == squall.Persistent {
		cfg.Group.Dir = t.TempDir()
	}
	p, err := member.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("closing the space: %v", err)
		}
	})
	return p
}

// gateway opens a gateway at loopback.
func gateway(t testing.TB, p *member.Member, domain int, topics ...rtps.Topic) *rtps.Gateway {
	t.Helper()
	for i := range topics {
		if topics[i].Type != nil {
			continue
		}
		kind, err := rtps.TypeOf[keyedSeq]()
		if err != nil {
			t.Fatal(err)
		}
		topics[i].Type = kind
	}
	g, err := rtps.Open(t.Context(), rtps.Config{Member: p, Domain: domain, Interface: "lo", Index: rtps.AnyIndex, Topics: topics, Logger: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeGateway(t, g) })
	return g
}

func closeGateway(t testing.TB, g *rtps.Gateway) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		t.Errorf("closing the gateway: %v", err)
	}
}

func keyed(t testing.TB, p *member.Member, name string, set dds.QoS) *dds.Topic[keyedSeq] {
	t.Helper()
	codec, err := dds.XCDR[keyedSeq](cdr.XCDR1)
	if err != nil {
		t.Fatal(err)
	}
	tp, err := dds.NewTopic(t.Context(), p, name, codec, set)
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

func readerOf(t testing.TB, tp *dds.Topic[keyedSeq], set dds.QoS) *dds.Reader[keyedSeq] {
	t.Helper()
	r, err := tp.Reader(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Samples of ddsperf, small ones and ones in fragments (CycloneDDS sends up to 14,720 bytes in one
// message), come in their order, none missing and none twice.
func TestDdsperfPublishesToAReaderOfASpace(t *testing.T) {
	testutil.Long(t)
	for _, size := range []int{100, 10 << 10, 100_000} {
		t.Run(fmt.Sprintf("size=%d", size), func(t *testing.T) {
			p, domain := space(t, nil), newDomain()
			r := readerOf(t, keyed(t, p, dataTopic, dds.QoS{}), dds.QoS{History: qos.KeepAll(), Limits: qos.Limits{Samples: 10_000}})
			pub := ddsperf(t, domain, "-D", "1", "pub", "size", strconv.Itoa(size))
			g := gateway(t, p, domain, rtps.Topic{Name: dataTopic, Direction: rtps.In})
			next, n := uint32(0), 0
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for {
				s, err := r.Next(ctx)
				if err != nil {
					t.Fatalf("after %d samples: %v\n%s\n%+v", n, err, pub.out.String(), g.Stats())
				}
				if !s.Info.Valid { // the writer has ended, and disposed of its instances
					break
				}
				if n > 0 && s.Value.Seq != next || len(s.Value.Baggage) != size-12 {
					t.Fatalf("RG2: sample %d has the number %d, and not %d, with %d bytes", n, s.Value.Seq, next, len(s.Value.Baggage))
				}
				next = s.Value.Seq + 1
				n++
			}
			out := pub.wait(t, 20*time.Second)
			t.Logf("%d samples, the first number %d; %+v\n%s", n, next-uint32(n), g.Stats(), out)
			if n < 10 { // large ones, on a machine that does other things
				t.Fatalf("only %d samples", n)
			}
		})
	}
}

// uri is the configuration of CycloneDDS, or one of the environment: for traces.
func uri() string {
	if u := os.Getenv("SQUALL_CYCLONEDDS_URI"); u != "" {
		return u
	}
	return cyclone
}

// Samples of a writer in the space, small ones and ones in fragments, come to ddsperf, which counts
// what it misses.
func TestDdsperfSubscribesToAWriterOfASpace(t *testing.T) {
	testutil.Long(t)
	for _, size := range []int{100, 10 << 10} {
		t.Run(fmt.Sprintf("size=%d", size), func(t *testing.T) {
			p, domain := space(t, nil), newDomain()
			tp := keyed(t, p, dataTopic, dds.QoS{})
			w, err := tp.Writer(t.Context(), dds.QoS{})
			if err != nil {
				t.Fatal(err)
			}
			sub := ddsperf(t, domain, "-D", "2", "sub")
			g := gateway(t, p, domain, rtps.Topic{Name: dataTopic, Direction: rtps.Out})
			v := keyedSeq{Baggage: make([]byte, size-12)}
			for running := true; running; v.Seq++ {
				if err := w.Write(t.Context(), v); err != nil {
					t.Fatal(err)
				}
				select {
				case <-sub.done:
					running = false
				default:
				}
			}
			out := sub.wait(t, 20*time.Second)
			t.Logf("%d samples were written; %+v\n%s", v.Seq, g.Stats(), out)
			receivedAll(t, sub, out)
		})
	}
}

// receivedAll demands that a ddsperf that has ended has received at least ten samples, and lost
// none. It counts by writer, and the first samples may have come from another writer than the
// others: so none is demanded of each.
func receivedAll(t *testing.T, sub *program, out string) {
	t.Helper()
	most := 0
	for _, line := range regexp.MustCompile(`size \d+ total (\d+) lost (\d+)`).FindAllStringSubmatch(out, -1) {
		if line[2] != "0" {
			t.Fatalf("ddsperf has lost %s samples of %s", line[2], line[1])
		}
		n, err := strconv.Atoi(line[1])
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	if most < 10 || sub.err != nil {
		t.Fatalf("ddsperf has received %d samples: %v\n%s", most, sub.err, out)
	}
}
