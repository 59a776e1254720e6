//go:build mutants

package space

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

// finding is a test that panics with what it finds.
type finding struct{ testing.TB }

func (finding) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (finding) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (finding) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }

func findingOf(t *testing.T, seed uint64) (what string) {
	defer func() {
		if r := recover(); r != nil {
			what = fmt.Sprint(r)
		}
	}()
	agreeOn(finding{t}, rand.New(rand.NewPCG(seed, 0)))
	return ""
}

func TestEveryMutantOfASpaceIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range mutant.SpaceNames {
		mutant.Set(name)
		what, seed := "", uint64(0)
		for ; what == "" && seed < 60; seed++ {
			what = findingOf(t, seed)
		}
		if what == "" {
			t.Errorf("%s: not found", name)
		} else {
			t.Logf("%s: seed %d: %.150s", name, seed-1, what)
		}
	}
}
