//go:build mutants && linux

package verbs

import (
	"fmt"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/mutant"
)

func TestEveryMutantOfRDMALinksIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range mutant.VerbsNames {
		t.Run(string(name), func(t *testing.T) {
			try := storm
			switch name {
			case mutant.ArmLate:
				try = sleeper
			case mutant.FreezeAlive:
				try = reuse
			case mutant.OldPair:
				try = reconnect
			case mutant.NoteFirst, mutant.SlotEarly, mutant.NoteOften:
				try = streams
			case mutant.DeadlineMute, mutant.DeadlineKept, mutant.DeadlineBoth:
				try = func(t testing.TB, _ uint64) error { return deadlines(t, time.Second) }
			case mutant.OneDomain, mutant.WholeReplica:
				try = func(t testing.TB, _ uint64) error { return intruder(t) }
			}
			mutant.Set(name)
			for seed := range uint64(300) {
				if err := tried(t, try, seed); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// The others show in what two processes do at the same time, in streams, in sleeping, or to
// intruders.
func TestMembersFindMutants(t *testing.T) {
	defer mutant.Set("")
	for _, name := range []mutant.Name{mutant.LineFirst, mutant.FreezeAlive, mutant.OldPair, mutant.NoCredits} {
		mutant.Set(name)
		c := members(1, 1500)
		if c.Run() == nil {
			t.Errorf("not found in %d seeds: %s", c.Seeds, name)
			continue
		}
		t.Logf("%s: seed %d: %.200v", name, c.Failed.Seed, c.Err)
	}
}

// tried makes an error of a panic.
func tried(t testing.TB, try func(testing.TB, uint64) error, seed uint64) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	return try(t, seed)
}
