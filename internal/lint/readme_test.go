//go:build system

package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
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
	fset := token.NewFileSet()
	var files []*ast.File
	var needs []string
	for name, want := range map[string]int{"README.md": 1, "docs/layers.md": 3} {
		found := programs(document(t, name))
		if len(found) != want {
			t.Errorf("%s has %d programs, want %d", name, len(found), want)
		}
		for _, program := range found {
			f, err := parser.ParseFile(fset, name, program, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			file{syntax: f}.imports(func(_ *ast.ImportSpec, path string) { needs = append(needs, path) })
		}
	}
	conf := types.Config{Importer: compiled(needs...), Error: func(err error) { t.Error(err) }}
	for _, f := range files {
		_, _ = conf.Check("main", fset, []*ast.File{f}, nil)
	}
}
