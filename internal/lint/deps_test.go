package lint

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// maxForeign is how many packages of other modules a program without logs is built with.
const maxForeign = 3

// A program is built with what it uses: without a log engine and a client of Prometheus if it
// imports none, and never with what only tests, commands and benchmarks need.
func TestAProgramWithoutLogsIsBuiltWithFewPackagesOfOtherModules(t *testing.T) {
	for _, of := range []string{".", "./rdmc", "./ripc", "./ripc/directory", "./dds", "./replicated"} {
		list := exec.Command("go", "list", "-deps", of)
		list.Dir = root
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		packages := strings.Fields(string(out))
		if !slices.Contains(packages, modulePath+"/order") {
			t.Fatalf("the list of imports is not one: %.200s", out)
		}
		foreign := slices.DeleteFunc(packages, func(p string) bool {
			host, _, _ := strings.Cut(p, "/")
			return !strings.Contains(host, ".") || p == modulePath || strings.HasPrefix(p, modulePath+"/")
		})
		if len(foreign) > maxForeign {
			t.Errorf("%s is built with %d packages of other modules, more than %d: %q", of, len(foreign), maxForeign, foreign)
		}
	}
}
