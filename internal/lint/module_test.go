package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// modulePath is that of the library; the sources of negative tests use it too. Other modules lie in
// directories below it.
const modulePath = "github.com/squall-go/squall"

// file is one parsed Go file, whatever its build constraints say.
type file struct {
	name   string // relative to the module, with slashes
	source []byte
	syntax *ast.File
}

// pkg is the directory of the file relative to the module; "." is the root package.
func (f file) pkg() string { return path.Dir(f.name) }

func (f file) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// imports calls visit with the path of each import.
func (f file) imports(visit func(spec *ast.ImportSpec, path string)) {
	for _, spec := range f.syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			visit(spec, p)
		}
	}
}

// module is a set of files of all modules and the faults found in them.
type module struct {
	fset   *token.FileSet
	files  []file
	faults []string
}

func (m *module) add(name string, source []byte) error {
	syntax, err := parser.ParseFile(m.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	m.files = append(m.files, file{name: name, source: source, syntax: syntax})
	return nil
}

func (m *module) fault(at token.Pos, format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf("%v: %s", m.fset.Position(at), fmt.Sprintf(format, args...)))
}

// packages lists the directories that hold Go files, sorted.
func (m *module) packages() []string {
	var dirs []string
	for _, f := range m.files {
		dirs = append(dirs, f.pkg())
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// root is the directory of go.work, seen from a test of this package.
const root = "../.."

// parsed is every file of the repository, read once for all tests.
var parsed = sync.OnceValues(func() (*module, error) {
	m := &module{fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && rel != "." && foreign(name):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return m.add(filepath.ToSlash(rel), source)
	})
	return m, err
})

// foreign reports whether a directory holds no packages: the go command's rules.
func foreign(dir string) bool {
	base := filepath.Base(dir)
	return base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")
}

// rule looks at a module and reports faults to it.
type rule func(*module)

// hold fails the test with every fault that the rule finds in the repository.
func hold(t *testing.T, r rule) {
	t.Helper()
	m, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.files) < 10 {
		t.Fatalf("found only %d files below %s", len(m.files), root)
	}
	look := &module{fset: m.fset, files: m.files}
	r(look)
	for _, f := range look.faults {
		t.Error(f)
	}
}

// sample is a repository in a string: files that each begin with a line "-- name --".
type sample string

func (s sample) parse(t *testing.T) *module {
	t.Helper()
	m := &module{fset: token.NewFileSet()}
	for _, part := range strings.Split(string(s), "\n-- ")[1:] {
		name, source, ok := strings.Cut(part, " --\n")
		if !ok {
			t.Fatalf("no file name in %q", part)
		}
		if err := m.add(name, []byte(source)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// violation is a sample and what the rule must say of it; with want empty the rule must find
// nothing.
type violation struct {
	name   string
	source sample
	want   string
}

// catches runs the rule over samples, each of which has exactly one fault.
func catches(t *testing.T, r rule, violations []violation) {
	t.Helper()
	for _, v := range violations {
		t.Run(v.name, func(t *testing.T) {
			m := v.source.parse(t)
			r(m)
			switch {
			case v.want == "" && len(m.faults) > 0:
				t.Errorf("found %q in a sample without fault", m.faults)
			case v.want != "" && (len(m.faults) != 1 || !strings.Contains(m.faults[0], v.want)):
				t.Errorf("found %q, want exactly one fault with %q", m.faults, v.want)
			}
		})
	}
}
