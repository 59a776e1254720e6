//go:build linux

package verbs

import (
	"flag"
	"fmt"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

var (
	seedsFlag = flag.Uint64("seeds", 0, "seeds of each random test; 0: its own number")
	firstFlag = flag.Uint64("first", 1, "the first seed")
)

// seedCount is how many seeds a random test tries, without and with the tag system.
func seedCount(plain, system uint64) uint64 {
	if *seedsFlag > 0 {
		return *seedsFlag
	}
	return testutil.Seeds(plain, system)
}

// again is the command that tries a seed again.
func again(t testing.TB, seed uint64) string {
	return fmt.Sprintf("go test ./fabric/verbs -run %s -args -seeds 1 -first %d", t.Name(), seed)
}

// Seeds tries something with each seed.
func Seeds(t *testing.T, plain, system uint64, try func(testing.TB, uint64) error) {
	for seed := *firstFlag; seed < *firstFlag+seedCount(plain, system); seed++ {
		if err := try(t, seed); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, again(t, seed))
		}
	}
}
