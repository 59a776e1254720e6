package lint

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that does not export metrics to Prometheus does not get its client. The same holds for what only tests, commands
// and benchmarks need.
func TestTheRootDependsOnNoModuleThatOnlyToolsNeed(t *testing.T) {
	list := exec.Command("go", "list", "-deps", ".")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), modulePath+"/views") {
		t.Fatalf("the list of imports is not one: %.200s", out)
	}
	for _, tool := range []string{"prometheus", "cobra", "pflag", "gonum", "hdrhistogram", "go-pretty", "progressbar", "humanize", "goleak", "go-fuse"} {
		for _, pkg := range strings.Fields(string(out)) {
			if strings.Contains(strings.ToLower(pkg), tool) {
				t.Errorf("the root imports %s", pkg)
			}
		}
	}
}
