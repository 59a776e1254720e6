//go:build system

package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pureLoopsHaveAnOrder needs types: it finds loops over maps, over the iterators of package maps,
// and over channels.
func pureLoopsHaveAnOrder(m *module) {
	for _, pkg := range withPureFiles() {
		var files, judged []*ast.File
		for _, f := range m.files {
			if f.pkg() == pkg && !f.isTest() && f.builds() {
				files = append(files, f.syntax)
				if f.isPure() {
					judged = append(judged, f.syntax)
				}
			}
		}
		info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
		// A fault of the type checker is the compiler's to report. What it could not type is not found
		// here.
		conf := types.Config{Importer: whatPureNeeds(), Error: func(error) {}, FakeImportC: true}
		_, _ = conf.Check(modulePath+"/"+pkg, m.fset, files, &info)
		for _, f := range judged {
			ast.Inspect(f, func(n ast.Node) bool {
				if loop, ok := n.(*ast.RangeStmt); ok {
					if what := unordered(loop.X, &info); what != "" {
						m.fault(loop.Pos(), "a loop over %s in a pure package", what)
					}
				}
				return true
			})
		}
	}
}

// withPureFiles are the packages that have something pure.
func withPureFiles() []string {
	return slices.Concat(pure, slices.Sorted(maps.Keys(pureFiles)))
}

// builds reports whether the file is part of the package on this platform. Samples are on no disk
// and always are.
func (f file) builds() bool {
	dir := filepath.Join(root, filepath.FromSlash(f.pkg()))
	if _, err := os.Stat(filepath.Join(dir, path.Base(f.name))); err != nil {
		return true
	}
	ok, err := build.Default.MatchFile(dir, path.Base(f.name))
	return ok || err != nil
}

func unordered(x ast.Expr, info *types.Info) string {
	if call, ok := ast.Unparen(x).(*ast.CallExpr); ok {
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
			if of := info.Uses[sel.Sel]; of != nil && of.Pkg() != nil && of.Pkg().Path() == "maps" {
				return "maps." + sel.Sel.Name
			}
		}
	}
	t := info.TypeOf(x)
	if t == nil {
		return ""
	}
	switch core(t).(type) {
	case *types.Map:
		return "a map"
	case *types.Chan:
		return "a channel"
	}
	return ""
}

// core is the underlying type, of a type parameter that of the first type it admits: what ranges
// over a type set ranges over one kind of type only.
func core(t types.Type) types.Type {
	t = t.Underlying()
	for {
		set, ok := t.(*types.Interface)
		if !ok || set.NumEmbeddeds() == 0 {
			return t
		}
		t = set.EmbeddedType(0)
		if union, ok := t.(*types.Union); ok {
			t = union.Term(0).Type()
		}
		t = t.Underlying()
	}
}

// exports maps import paths to the compiler's export data, of packages and everything that they
// need. The data comes from the go command's cache, so that nothing is type-checked twice.
func exports(packages ...string) (map[string]string, error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}, packages...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if p, data, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found[p] = data
		}
	}
	return found, nil
}

// compiled imports packages from their export data.
func compiled(packages ...string) types.Importer {
	found, err := exports(packages...)
	return importer.ForCompiler(token.NewFileSet(), "gc", func(p string) (io.ReadCloser, error) {
		if err != nil {
			return nil, err
		}
		if found[p] == "" {
			return nil, fmt.Errorf("no export data of %s", p)
		}
		return os.Open(found[p])
	})
}

// whatPureNeeds imports everything that the pure packages need.
var whatPureNeeds = sync.OnceValue(func() types.Importer {
	packages := []string{"maps", "slices"}
	for _, pkg := range withPureFiles() {
		packages = append(packages, modulePath+"/"+pkg)
	}
	return compiled(packages...)
})

func TestPurePackagesDoNotLoopOverMaps(t *testing.T) {
	if found, err := exports("maps"); err != nil || found["maps"] == "" {
		t.Fatalf("no export data: %v, %v", err, slices.Sorted(maps.Keys(found)))
	}
	hold(t, pureLoopsHaveAnOrder)
}

func TestALoopWithoutOrderIsFound(t *testing.T) {
	const body = "\n-- views/a.go --\npackage views\n"
	catches(t, pureLoopsHaveAnOrder, []violation{
		{"a map in a core", "\n-- internal/join/joiner.go --\npackage join\nfunc f(m map[int]int) { for range m {} }\n", "a map"},
		{"a map in a shell", "\n-- internal/join/dialer.go --\npackage join\nfunc f(m map[int]int) { for range m {} }\n", ""},
		{"a map", body + "func f(m map[int]int) { for range m {} }\n", "a map"},
		{"a named map", body + "type set map[int]bool\nfunc f(s struct{ in set }) { for k := range s.in { _ = k } }\n", "a map"},
		{"a map of a type parameter", body + "func f[M ~map[int]int](m M) { for range m {} }\n", "a map"},
		{"keys", body + "import \"maps\"\nfunc f(m map[int]int) { for range maps.Keys(m) {} }\n", "maps.Keys"},
		{"a channel", body + "func f(c chan int) { for range c {} }\n", "a channel"},
		{"what is allowed", body + `import ("maps"; "slices")
func f(m map[int]int, s []int, n int) {
	for range slices.Sorted(maps.Keys(m)) {}
	for range s {}
	for range n {}
	for range "text" {}
}
`, ""},
	})
}
