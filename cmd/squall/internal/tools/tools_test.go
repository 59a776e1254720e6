package tools

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestWhatASmallProgramLacksIsForTheOther(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "--help": false, "demo": false, "demo --chaos": false, "demo --durable": true, "demo --nodes 2 --durable=true": true, "bench --idle": true,
		"help bench": true, "help demo": false, "__complete bench --": true, "__complete be": false, "cp a b:1": false, "benhc": false, "status bench": false,
	} {
		if got := Need(strings.Fields(line)); got != want {
			t.Errorf("squall %s: %v", line, got)
		}
	}
}

// The first command that people try is squall demo. Each of these packages, or what it imports,
// takes seconds to compile.
func TestTheSmallProgramCompilesFast(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../..").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, heavy := range []string{
		"net/http", "github.com/hashicorp/raft", "github.com/squall-go/squall/dds", "github.com/squall-go/squall/replicated", "github.com/squall-go/squall/ripc",
		"github.com/squall-go/squall/internal/sim", "github.com/squall-go/squall/persist/bolt",
	} {
		if slices.Contains(deps, heavy) {
			t.Errorf("cmd/squall imports %s", heavy)
		}
	}
}

func TestWithoutSourceAndProgramALineSaysHowToGetIt(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "/nowhere")
	var errs strings.Builder
	if err := Exec(&errs); err == nil || !strings.Contains(err.Error(), "go install "+source+"@") || strings.Contains(err.Error(), "\n") || errs.Len() > 0 {
		t.Errorf("%v, %s", err, &errs)
	}
}

func TestAProgramInThePathIsFound(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", dir)
	if err := os.WriteFile(executable(name), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := find(&strings.Builder{}); err != nil || !strings.HasPrefix(path, dir) {
		t.Errorf("%s, %v", path, err)
	}
}
