package sim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testdata/plans has plans that failed once, as the shrinker left them.
func TestPlansThatFailedOnce(t *testing.T) {
	files, err := filepath.Glob("testdata/plans/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plans: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var file PlanFile
			if err := json.Unmarshal(text, &file); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(file.Violation, "\n") {
				t.Errorf("the violation has more than one line: %s", file.Violation)
			}
			if r := Run(file.Plan, Options{}); r.Err != nil {
				t.Error(Report(file.Plan, Options{}, r.Err))
			}
		})
	}
}

// A file of a plan that ended in a panic says what it was, and nothing of the machine.
func TestAPlanFileHasOneLineOfItsViolation(t *testing.T) {
	p := Draw(1, Limits{})
	w := newWorld(p, Options{})
	w.panicked("two records")
	if f := NewPlanFile(p, w.result.Err, "c"); f.Violation != "at 0s: panic: two records" || f.Plan != p || f.Commit != "c" {
		t.Errorf("the violation is %q", f.Violation)
	}
}
