package sim

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// The same seed gives the same run, event by event, traced or not; that is what makes a failure replay.
func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	hashes, seeds := map[uint64]bool{}, uint64(60)
	if raceEnabled {
		seeds = 5
	}
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
	if len(hashes) < int(seeds)-5 {
		t.Fatalf("%d seeds gave %d different runs", seeds, len(hashes))
	}
}

// The checkers look into rows at places that other packages chose; a dump names them.
func TestColumnsAreWhereTheCheckersLook(t *testing.T) {
	p := Draw(7, Limits{Nodes: 2})
	w := newWorld(p, Options{})
	if err := w.layOut(Options{}); err != nil {
		t.Fatal(err)
	}
	var dump bytes.Buffer
	n := w.nodes[0]
	if err := n.member.Table().Dump(&dump); err != nil {
		t.Fatal(err)
	}
	row, _, _ := strings.Cut(dump.String(), "\n")
	lines := strings.Split(row, "{")
	if got := strings.Fields(lines[1+memberLine/64])[0]; !strings.HasPrefix(got, "heartbeat=") {
		t.Errorf("the member line begins with %q in %s", got, row)
	}
	words := strings.Split(strings.TrimSuffix(strings.Split(lines[2+memberLine/64], "}")[0], "}"), " ")
	for word, name := range map[int]string{wordSent: "sent", wordSkipped: "skipped", wordReceived: "received", wordDelivered: "delivered"} {
		if !strings.HasPrefix(words[word], name+"=") {
			t.Errorf("word %d of a subgroup's line is %q, want %s", word, words[word], name)
		}
	}
}

func TestContentTellsItsNumberAndShowsEveryFlippedBit(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 64, 100} {
		data := make([]byte, size)
		key := stream(1, 42)
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
	for _, part := range []string{r.Err.Error(), fmt.Sprintf("-seed %d", p.Seed), "rank 2", "subgroup"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
	if strings.Contains(text, "ended otherwise") {
		t.Errorf("the replay differs:\n%s", text)
	}
}

// Whatever the fault is, a group of fixed membership ends as a whole.
func TestEveryFaultHaltsEverybody(t *testing.T) {
	for kind := Crash; kind < faultKinds; kind++ {
		found := 0
		for seed := uint64(1); found < 10; seed++ {
			yes := true
			p := Draw(seed, Limits{Nodes: 4, Faults: &yes})
			if p.Fault.Kind != kind {
				continue
			}
			found++
			if r := Run(p, Options{}); r.Err != nil {
				t.Fatalf("%v: %s", kind, Report(p, Options{}, r.Err))
			}
		}
	}
}
