package squall

import (
	"testing"

	"github.com/squall-go/squall/internal/extension"
)

// A second extension would take the place of the first as a whole.
func TestASubgroupIsExtendedOnce(t *testing.T) {
	for _, first := range []extension.Config{
		{Operations: []string{"set"}}, {Missing: func([]string) []string { return nil }}, {Keeper: new(nothingKept)},
	} {
		sg := SubgroupConfig{Name: "a"}
		sg.Extend(first)
		refused := func() (why any) {
			defer func() { why = recover() }()
			sg.Extend(extension.Config{})
			return nil
		}()
		if refused == nil {
			t.Errorf("%+v was replaced", first)
		}
	}
}

type nothingKept struct{ extension.Keeper }
