package member_test

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated/internal/worldtest"
)

// Whatever members and clients call: each call returns what the model has.
func TestCallsReturnWhatTheModelHas(t *testing.T) {
	for seed := range testutil.Seeds[uint64](3, 5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { worldtest.Play(testutil.Within(t), t, 100+seed, 150) })
	}
}
