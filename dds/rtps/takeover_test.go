package rtps_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
	"github.com/squall-go/squall/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.BecomeProgramOf(carrier)
	testutil.Overlap(8)
	os.Exit(tests(m))
}

func tests(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "squall-guests"); err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(built)
	return m.Run()
}

// carrier is a member with a gateway until its input ends, for a test that kills it. Its arguments
// are the address of the group and the domain.
func carrier(args []string) error {
	ctx := context.Background()
	p, err := oneOfThree(ctx, 1, args[0])
	if err != nil {
		return err
	}
	kind, err := rtps.TypeOf[keyedSeq]()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if _, err := rtps.Open(ctx, pair(p, n, kind)); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// pair is the configuration of two gateways that stand in for each other. The lease of each is
// longer than the machine may stand still: ddsperf forgets a gateway whose lease has ended, and
// then what it had for it.
func pair(p *member.Member, domain int, kind *rtps.Type) rtps.Config {
	return rtps.Config{
		Member: p, Domain: domain, Interface: "lo", Index: rtps.AnyIndex, Lease: 4 * time.Second, Logger: quiet,
		Topics: []rtps.Topic{{Name: dataTopic, Type: kind, Direction: rtps.In}},
	}
}

// oneOfThree is one of three members of a group.
func oneOfThree(ctx context.Context, n squall.NodeID, addr string) (*member.Member, error) {
	c := squall.Config{Cluster: "test", ID: n, Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: 3, Logger: quiet}
	if n == 1 {
		c.Listen = addr
	}
	return member.Open(ctx, member.Config{Group: c, Subgroup: squall.SubgroupConfig{Name: "space"}})
}

// A gateway is killed while ddsperf writes. The other one, at another member, goes on, and a reader
// gets every sample once and in order (RG2).
func TestAnotherGatewayGoesOnWhenOneIsKilled(t *testing.T) {
	testutil.Long(t)
	if _, err := exec.LookPath("ddsperf"); err != nil {
		t.Skip("ddsperf is not installed (Debian: cyclonedds-tools)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	addr, domain := testutil.FreeAddress(t), newDomain()
	child := testutil.StartProgram(t, addr, strconv.Itoa(domain))
	opened := make(chan error, 1)
	var third *member.Member
	go func() {
		var err error
		third, err = oneOfThree(ctx, 3, addr)
		opened <- err
	}()
	p, err := oneOfThree(ctx, 2, addr)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_, _ = p.Close(ctx), third.Close(ctx) // with a member that was killed, the last one may be without a quorum
	})
	child.Await("ready")
	kind, err := rtps.TypeOf[keyedSeq]()
	if err != nil {
		t.Fatal(err)
	}
	cfg := pair(p, domain, kind)
	cfg.Logger = logger(t)
	g, err := rtps.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeGateway(t, g) })
	r := readerOf(t, keyed(t, third, dataTopic, dds.QoS{}), dds.QoS{History: qos.KeepAll(), Limits: qos.Limits{Samples: 10_000}})
	pub := ddsperf(t, domain, "-D", "7", "pub", "5kHz", "size", "100")
	next, n, killed, before := uint32(0), 0, 0, rtps.Stats{}
	for {
		s, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("after %d samples: %v\n%s\n%+v", n, err, pub.out.String(), g.Stats())
		}
		if !s.Info.Valid {
			if killed > 0 && g.Stats().Writers == 0 { // ddsperf has ended
				break
			}
			continue // the writer that the killed member stood in with
		}
		if n > 0 && s.Value.Seq != next {
			t.Fatalf("RG2: sample %d has the number %d, and not %d", n, s.Value.Seq, next)
		}
		next = s.Value.Seq + 1
		if n++; n == 1000 {
			if before = g.Stats(); before.Active || before.Carried > 0 {
				t.Fatalf("the gateway that stands by has carried: %+v", before)
			}
			child.Kill()
			killed = n
		}
	}
	after := g.Stats()
	t.Logf("%d samples, %d of them after the kill; the gateway that stood by: %+v, then %+v\n%s", n, n-killed, before, after, pub.wait(t, 20*time.Second))
	if !after.Active || after.Carried == 0 || n-killed < 100 {
		t.Fatalf("%d samples came after the kill: %+v", n-killed, after)
	}
}
