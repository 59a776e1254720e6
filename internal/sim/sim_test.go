package sim

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/internal/viewchange"
)

// The same seed gives the same run, event by event, traced or not; that is what makes a failure
// replay.
func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	hashes, seeds := map[uint64]bool{}, testutil.Seeds[uint64](15, 60)
	for seed := range seeds {
		p := Draw(seed, Limits{})
		var once, again bytes.Buffer
		a, b := Run(p, Options{Trace: &once}), Run(Draw(seed, Limits{}), Options{Trace: &again})
		if a.Hash != b.Hash || !bytes.Equal(once.Bytes(), again.Bytes()) {
			t.Fatalf("seed %d: two runs differ: hash %x and %x", seed, a.Hash, b.Hash)
		}
		if c := Run(p, Options{}); c.Hash != a.Hash || c.Deliveries != a.Deliveries || c.Time != a.Time {
			t.Fatalf("seed %d: the run without trace differs: hash %x and %x", seed, c.Hash, a.Hash)
		}
		hashes[a.Hash] = true
	}
	if len(hashes) < int(seeds)*9/10 {
		t.Fatalf("%d seeds gave %d different runs", seeds, len(hashes))
	}
}

// The checkers look into rows at places that other packages chose; a dump names them.
func TestColumnsAreWhereTheCheckersLook(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(Draw(seed, Limits{Nodes: 3}), Options{})
		if err := w.layOut(Options{}); err != nil {
			t.Fatal(err)
		}
		defer w.net.Close()
		for _, p := range w.procs {
			dump := dumpOf(t, p)
			look(t, dump, viewLine, "suspected", wordSuspected, "leaving", wordLeaving, "mute", wordMute, "proposed", wordProposed, "acked", wordAcked, "installed", wordInstalled, "decided", wordDecided, "revision", wordRevision)
			look(t, dump, memberLine, "heartbeat", 0)
			for i, sg := range p.seat().record.view.Subgroups {
				if sg.Has(p.seat().self) {
					look(t, dump, p.seat().lineOff(i), "skipped", wordSkipped, "sent", wordSent, "position", wordPosition, "persisted", wordPersisted, "whole", wordWhole, "delivered", wordDelivered, "received", wordReceived)
				}
			}
		}
	}
}

// dumpOf is the process's own row, line by line.
func dumpOf(t *testing.T, p *process) []string {
	var dump bytes.Buffer
	if err := p.member.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	row := strings.Split(dump.String(), "\n")[p.seat().self]
	return strings.Split(row, "{")[1:]
}

func look(t *testing.T, lines []string, off int, want ...any) {
	t.Helper()
	words := strings.Fields(strings.Split(lines[off/64], "}")[0])
	for k := 0; k < len(want); k += 2 {
		if name, at := want[k].(string), want[k+1].(int); !strings.HasPrefix(words[at], name+"=") {
			t.Errorf("word %d of the line at %d is %q, want %s", at, off, words[at], name)
		}
	}
}

func TestContentTellsItsNumberAndShowsEveryFlippedBit(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 64, 100} {
		data := make([]byte, size)
		key := stream(1, 42, 1)
		fill(data, key, 17)
		if !filled(data, key, 17) {
			t.Fatalf("%d bytes are not what was filled in", size)
		}
		if n, ok := 17, true; size >= 8 {
			if n, ok = numberOf(data, key); n != 17 || !ok {
				t.Fatalf("%d bytes tell the number %d, %v", size, n, ok)
			}
		}
		for bit := range 8 * size {
			data[bit/8] ^= 1 << (bit % 8)
			if filled(data, key, 17) {
				t.Fatalf("%d bytes with bit %d flipped pass", size, bit)
			}
			data[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// A failure says everything that is needed to look into it.
func TestAReportSaysHowToReplay(t *testing.T) {
	p, r := Draw(1, Limits{}), Result{}
	for seed := uint64(1); r.Err == nil; seed++ {
		p = Draw(seed, Limits{Nodes: 3})
		r = Run(p, Options{Lie: TakesAgain})
	}
	text := Report(p, Options{Lie: TakesAgain}, r.Err)
	for _, part := range []string{r.Err.Error(), fmt.Sprintf("sim --seed %d --nodes 3 --trace", p.Seed), fmt.Sprintf("node %d", p.Nodes[2].ID), "subgroup"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
	if strings.Contains(text, "ended otherwise") {
		t.Errorf("the replay differs:\n%s", text)
	}
}

// What view 1 to 64 declares is what the checkers count with.
func TestAQuorumIsAMajorityOrHalfWithTheSenior(t *testing.T) {
	for n := 1; n <= 6; n++ {
		procs := make([]*process, n)
		for k := range procs {
			procs[k] = &process{}
		}
		r := &viewRecord{procs: procs}
		for set := range viewchange.Ranks(1) << n {
			in := func(p *process) bool {
				for k, q := range procs {
					if q == p {
						return set>>k&1 != 0
					}
				}
				return false
			}
			if got, want := r.quorum(in), viewchange.Quorum(n, set); got != want {
				t.Errorf("G5: %b of %d: %v here, %v in package viewchange", set, n, got, want)
			}
		}
	}
}
