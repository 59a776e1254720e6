//go:build mutants

package squalltest

import (
	"slices"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/mutant"
)

// mutantSeeds is within how many seeds each fault of sessions, and of clients, has to be found.
const mutantSeeds = 600

func TestEveryMutantOfObjectsIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range mutant.ObjectNames {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			for seed := uint64(1); seed <= mutantSeeds; seed++ {
				if _, err := play(Config{}, seed, newCounter, count, right, false); err != nil {
					text := err.Error()
					t.Logf("seed %d: %.200s", seed, text)
					return
				}
			}
			t.Errorf("%d seeds did not show it", mutantSeeds)
		})
	}
}

// mutantShardSeeds is within how many seeds each fault has to be found in shards.
const mutantShardSeeds = 2000

// TestEveryMutantOfShardsIsFound plays shards that move with the faults of shards, and with those
// of sessions that a move may show.
func TestEveryMutantOfShardsIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range slices.Concat(mutant.ShardedNames, []mutant.Name{mutant.ReplyDropped, mutant.SessionsLeftOut, mutant.RepliesLeftOut}) {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			for seed := uint64(1); seed <= mutantShardSeeds; seed++ {
				if _, err := playShards(squall.SubgroupConfig{}, seed, false); err != nil {
					t.Logf("seed %d: %.200s", seed, err.Error())
					return
				}
			}
			t.Errorf("%d seeds did not show it", mutantShardSeeds)
		})
	}
}

// mutantBatchSeeds is within how many seeds each fault of commands that share a message has to be
// found.
const mutantBatchSeeds = 600

func TestEveryMutantOfBatchesIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range mutant.BatchNames {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			for seed := uint64(1); seed <= mutantBatchSeeds; seed++ {
				if _, err := playBatches(seed, false); err != nil {
					t.Logf("seed %d: %.200s", seed, err.Error())
					return
				}
			}
			t.Errorf("%d seeds did not show it", mutantBatchSeeds)
		})
	}
}

// mutantKeptSeeds is within how many seeds the fault of acknowledgements has to be found.
const mutantKeptSeeds = 300

func TestTheMutantOfAcknowledgementsIsFound(t *testing.T) {
	mutant.Set(mutant.UnendedFreed)
	defer mutant.Set("")
	for seed := uint64(1); seed <= mutantKeptSeeds; seed++ {
		if _, err := playKept(seed, false); err != nil {
			t.Logf("seed %d: %.200s", seed, err.Error())
			return
		}
	}
	t.Errorf("%d seeds did not show it", mutantKeptSeeds)
}
