package sim

import (
	"encoding/json"
	"os"
	"path/filepath"
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
			if r := Run(file.Plan, Options{}); r.Err != nil {
				t.Error(Report(file.Plan, Options{}, r.Err))
			}
		})
	}
}
