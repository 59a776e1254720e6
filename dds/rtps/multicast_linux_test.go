package rtps_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/internal/testutil"
)

// multicasting is the configuration of CycloneDDS on a host of a lab: everything is found by
// multicast.
const multicasting = `<CycloneDDS><Domain id="any"><General><Interfaces><NetworkInterface name="eth0"/></Interfaces><AllowMulticast>true</AllowMulticast></General></Domain></CycloneDDS>`

// ddsperf on one host finds two gateways on two other hosts by multicast, sends samples to both at
// once, and receives samples.
func TestDiscoveryAndSamplesComeByMulticast(t *testing.T) {
	testutil.Long(t)
	path, err := exec.LookPath("ddsperf")
	if err != nil {
		t.Skip("ddsperf is not installed (Debian: cyclonedds-tools)")
	}
	lab, err := netlab.New(netlab.Config{Hosts: 3})
	if errors.Is(err, netlab.ErrUnavailable) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	members, domain := twoMembers(t), 7
	kind, err := rtps.TypeOf[keyedSeq]()
	if err != nil {
		t.Fatal(err)
	}
	var gateways [2]*rtps.Gateway
	for i, p := range members {
		err := lab.Hosts[i].Do(func() (err error) {
			gateways[i], err = rtps.Open(t.Context(), rtps.Config{
				Member: p, Domain: domain, Interface: "eth0", Index: rtps.AnyIndex, Multicast: true, Logger: logger(t),
				Topics: []rtps.Topic{{Name: dataTopic, Type: kind, Direction: rtps.Both}},
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeGateway(t, gateways[i]) })
	}
	topic := keyed(t, members[1], dataTopic, dds.QoS{})
	r := readerOf(t, topic, dds.QoS{History: qos.KeepAll(), Limits: qos.Limits{Samples: 10_000}})
	w, err := topic.Writer(t.Context(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	start := func(args ...string) *program {
		p := &program{cmd: exec.Command(path, append([]string{"-i", strconv.Itoa(domain)}, args...)...), done: make(chan struct{})}
		p.cmd.Env = append(os.Environ(), "CYCLONEDDS_URI="+multicasting)
		if err := lab.Hosts[2].Do(func() error { p.start(t); return nil }); err != nil {
			t.Fatal(err)
		}
		return p
	}
	sub := start("-D", "3", "sub")
	pub := start("-D", "2", "pub", "1kHz", "size", "1000")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	next, n := uint32(0), 0
	for v := (keyedSeq{Baggage: make([]byte, 500)}); n < 500; {
		s, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("after %d samples: %v\n%s\n%s\n%+v\n%+v", n, err, pub.out.String(), sub.out.String(), gateways[0].Stats(), gateways[1].Stats())
		}
		if !s.Info.Valid || len(s.Value.Baggage) == len(v.Baggage) { // one of this test
			continue
		}
		if n > 0 && s.Value.Seq != next {
			t.Fatalf("RG2: sample %d has the number %d, and not %d", n, s.Value.Seq, next)
		}
		next = s.Value.Seq + 1
		n++
		if err := w.Write(ctx, v); err != nil {
			t.Fatal(err)
		}
		v.Seq++
	}
	receivedAll(t, sub, sub.wait(t, 20*time.Second))
	for i, g := range gateways {
		s := g.Stats()
		t.Logf("%+v", s)
		if s.Multicast < uint64(n)/2 || s.Received < uint64(n) {
			t.Fatalf("gateway %d has received %d messages by multicast, with %d samples: %+v", i, s.Multicast, n, s)
		}
	}
}
