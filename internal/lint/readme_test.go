package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs returns the Go programs in a page.
func programs(page string) (found []string) {
	for _, part := range strings.Split(page, "\n```go\n")[1:] {
		if code, _, closed := strings.Cut(part, "\n```"); closed && strings.HasPrefix(code, "package main\n") {
			found = append(found, code+"\n")
		}
	}
	return found
}

// What a newcomer copies has to compile.
func TestTheProgramsInPagesCompile(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command to compile them with")
	}
	for name, want := range map[string]int{"README.md": 1, "docs/layers.md": 4} {
		found := programs(document(t, name))
		if len(found) != want {
			t.Errorf("%s has %d programs, want %d", name, len(found), want)
		}
		for _, program := range found {
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			vet := exec.Command("go", "vet", file)
			vet.Dir = root
			if out, err := vet.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	}
}
