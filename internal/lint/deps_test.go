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
	for _, of := range []string{".", "./rdmc", "./ripc", "./ripc/directory", "./dds", "./replicated", "./replicated/member"} {
		packages := dependencies(t, of)
		foreign := slices.DeleteFunc(packages, func(p string) bool {
			host, _, _ := strings.Cut(p, "/")
			return !strings.Contains(host, ".") || p == modulePath || strings.HasPrefix(p, modulePath+"/")
		})
		if len(foreign) > maxForeign {
			t.Errorf("%s is built with %d packages of other modules, more than %d: %q", of, len(foreign), maxForeign, foreign)
		}
	}
}

// maxOfClient is how many packages that are not of the standard library a client of replicated
// objects is built with, apart from those of package ripc.
const maxOfClient = 7

// A program that only calls replicated objects is built without what members are made of.
func TestAClientOfObjectsIsBuiltWithFewPackages(t *testing.T) {
	ripc := dependencies(t, "./ripc")
	all := slices.DeleteFunc(dependencies(t, "./replicated"), func(p string) bool {
		host, _, _ := strings.Cut(p, "/")
		return !strings.Contains(host, ".") || slices.Contains(ripc, p)
	})
	if len(all) > maxOfClient {
		t.Errorf("a client is built with %d packages next to those of ripc, more than %d: %q", len(all), maxOfClient, all)
	}
	if slices.Contains(all, modulePath) {
		t.Error("a client is built with package squall")
	}
}

// dependencies returns what a package is built with, itself among it.
func dependencies(t *testing.T, of string) []string {
	t.Helper()
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
	return packages
}
