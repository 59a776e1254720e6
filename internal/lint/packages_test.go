package lint

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var drawnPackage = regexp.MustCompile(`^│ (\S+) +\S`)

// drawn returns the levels of the drawing in docs/packages.md, the lowest one first, and the
// packages that it calls pure.
func drawn(page string) (levels [][]string, isPure []string) {
	var level []string
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if match := drawnPackage.FindStringSubmatch(line); match != nil {
			level = append(level, match[1])
			if strings.HasSuffix(line, " (pure)") {
				isPure = append(isPure, match[1])
			}
		} else if strings.HasPrefix(line, "├─") || strings.HasPrefix(line, "└─") {
			levels, level = append(levels, level), nil
		}
	}
	slices.Reverse(levels)
	return levels, isPure
}

// drawingFaults compares a page with the tables of this package.
func drawingFaults(page string, layers [][]string, pure []string) (faults []string) {
	levels, isPure := drawn(page)
	if len(levels) != len(layers) {
		return []string{"docs/packages.md has another number of levels than the table of layers"}
	}
	sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
	for i := range layers {
		if want, have := sorted(layers[i]), sorted(levels[i]); !slices.Equal(want, have) {
			faults = append(faults, "docs/packages.md has "+strings.Join(have, " ")+" on a level; the table of layers has "+strings.Join(want, " ")+": draw it so")
		}
	}
	if want, have := sorted(pure), sorted(isPure); !slices.Equal(want, have) {
		faults = append(faults, "docs/packages.md calls pure "+strings.Join(have, " ")+"; the list has "+strings.Join(want, " "))
	}
	return faults
}

func TestTheDrawingOfThePackagesIsTheTableOfLayers(t *testing.T) {
	for _, f := range drawingFaults(document(t, "docs/packages.md"), layers, pure) {
		t.Error(f)
	}
}

func TestADrawingThatDiffersIsFound(t *testing.T) {
	layers, pure := [][]string{{"order", "trust"}, {"smc"}}, []string{"order"}
	const good = "```\n│ smc    the ring\n├──\n│ trust  keys\n│ order  positions (pure)\n└──\n```\n"
	for name, c := range map[string]struct{ page, want string }{
		"good":             {good, ""},
		"one missing":      {strings.Replace(good, "│ trust  keys\n", "", 1), "has order on a level"},
		"on another level": {strings.Replace(strings.Replace(good, "│ trust  keys\n", "", 1), "│ smc ", "│ trust keys\n│ smc ", 1), "has order on a level"},
		"not pure":         {strings.Replace(good, " (pure)", "", 1), "calls pure"},
		"a level too many": {good + "│ views a\n└──\n", "another number of levels"},
	} {
		faults := drawingFaults(c.page, layers, pure)
		if c.want == "" && len(faults) > 0 || c.want != "" && (len(faults) == 0 || !strings.Contains(faults[0], c.want)) {
			t.Errorf("%s: found %q, want %q", name, faults, c.want)
		}
	}
}
