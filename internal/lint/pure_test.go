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

// pure lists the packages whose result depends on their arguments alone. The simulator runs their
// very code.
var pure = []string{
	"cmd/squall/internal/linkmodel", "dds/filter", "dds/internal/remote", "dds/internal/space", "dds/qos", "dds/rtps/internal/protocol", "dds/rtps/internal/wire",
	"internal/attach", "internal/catchup", "internal/journal", "internal/life", "internal/multicast", "internal/relay", "internal/shard", "internal/viewchange",
	"nullsend", "order", "rdmc/schedule", "replicated/internal/client", "replicated/internal/machine", "replicated/internal/relay",
	"ripc/directory/internal/registry", "ripc/internal/pair", "ripc/internal/stream", "ripc/internal/table", "smc", "sst", "views",
}

// pureFiles lists the cores of packages that have their shells next to them, by package.
var pureFiles = map[string][]string{
	"internal/join":    {"acceptor.go", "bootstrap.go", "check.go", "effects.go", "joiner.go", "keyed.go", "message.go", "probation.go", "word.go"},
	"internal/restart": {"announcer.go", "core.go", "effects.go", "event.go", "follow.go", "identity.go", "incomplete.go", "keyed.go", "lead.go", "message.go", "state.go", "text.go", "wait.go"},
}

// isPure reports whether a file is pure: its package is, or it is the core of one.
func (f file) isPure() bool {
	return !f.isTest() && (slices.Contains(pure, f.pkg()) || slices.Contains(pureFiles[f.pkg()], path.Base(f.name)))
}

// addresses lists what a pure package may name of package net: functions of text.
var addresses = []string{"JoinHostPort", "ParseIP", "SplitHostPort"}

// onlyAddresses reports whether a file names nothing of package net but addresses.
func (f file) onlyAddresses() bool {
	only := true
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			x, isName := sel.X.(*ast.Ident)
			only = only && (!isName || x.Name != "net" || slices.Contains(addresses, sel.Sel.Name))
		}
		return true
	})
	return only
}

// impureImports are the packages that a pure one has no use for, with what is below them. All of
// sync is among them (sync/atomic is a package of its own): what is in it waits, or depends on the
// collector. Addresses of net/netip are values.
var impureImports = []string{
	"context", "crypto/rand", "golang.org/x/sys", "io/ioutil", "log", "math/rand", "net", "os", "sync", "syscall",
}

// clock lists what a pure package may not name of package time; durations and instants as values
// are fine.
var clock = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

func impure(importPath string) bool {
	return importPath != "sync/atomic" && importPath != "net/netip" && slices.ContainsFunc(impureImports, func(p string) bool {
		return importPath == p || strings.HasPrefix(importPath, p+"/")
	})
}

// purePackagesArePure judges by syntax, so that files for other platforms are read too. Tests of
// pure packages are free.
func purePackagesArePure(m *module) {
	for _, f := range m.files {
		if !f.isPure() {
			continue
		}
		timeNames := map[string]bool{}
		f.imports(func(spec *ast.ImportSpec, p string) {
			if impure(p) && !(p == "net" && spec.Name == nil && f.onlyAddresses()) {
				m.fault(spec.Pos(), "a pure package imports %s", p)
			}
			switch {
			case spec.Name == nil:
				timeNames[path.Base(p)] = p == "time"
			case spec.Name.Name == ".":
				m.fault(spec.Pos(), "a pure package imports %s with a dot, which hides what it uses", p)
			default:
				timeNames[spec.Name.Name] = p == "time"
			}
		})
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if what := impurity(n, timeNames); what != "" {
				m.fault(n.Pos(), "%s in a pure package", what)
				_, chosen := n.(*ast.SelectStmt)
				return !chosen // its cases would be reported once more
			}
			return true
		})
	}
}

// impurity names what is wrong with a node, or returns "".
func impurity(n ast.Node, timeNames map[string]bool) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.ChanType:
		return "a channel type"
	case *ast.SendStmt:
		return "a send on a channel"
	case *ast.SelectStmt:
		return "a select"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a receive from a channel"
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && timeNames[x.Name] && slices.Contains(clock, n.Sel.Name) {
			return "the clock, time." + n.Sel.Name
		}
	}
	return ""
}

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

func TestPureFilesExist(t *testing.T) {
	for pkg, names := range pureFiles {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(root, pkg, name)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestPurePackagesArePure(t *testing.T) { hold(t, purePackagesArePure) }

func TestPurePackagesDoNotLoopOverMaps(t *testing.T) {
	if found, err := exports("maps"); err != nil || found["maps"] == "" {
		t.Fatalf("no export data: %v, %v", err, slices.Sorted(maps.Keys(found)))
	}
	hold(t, pureLoopsHaveAnOrder)
}

func TestImpurityIsFound(t *testing.T) {
	catches(t, purePackagesArePure, []violation{
		{"a clock", "\n-- sst/a.go --\npackage sst\nimport \"time\"\nfunc f() time.Time { return time.Now() }\n", "time.Now"},
		{"a clock as a value", "\n-- sst/a.go --\npackage sst\nimport \"time\"\nvar now = time.Now\n", "time.Now"},
		{"a clock by another name", "\n-- smc/a.go --\npackage smc\nimport t \"time\"\nfunc f() { t.Sleep(1) }\n", "time.Sleep"},
		{"a timer", "\n-- views/a.go --\npackage views\nimport \"time\"\nvar t = time.NewTimer(1)\n", "time.NewTimer"},
		{"a dot import", "\n-- views/a.go --\npackage views\nimport . \"time\"\nvar t = Now()\n", "with a dot"},
		{"a goroutine", "\n-- order/a.go --\npackage order\nfunc f() { go f() }\n", "a goroutine"},
		{"a channel type", "\n-- order/a.go --\npackage order\ntype c <-chan int\n", "a channel type"},
		{"a send", "\n-- order/a.go --\npackage order\nfunc f() { c <- 1 }\n", "a send"},
		{"a receive", "\n-- order/a.go --\npackage order\nfunc f() { <-c }\n", "a receive"},
		{"a select", "\n-- order/a.go --\npackage order\nfunc f() { select { case <-c: } }\n", "a select"},
		{"a lock", "\n-- smc/a.go --\npackage smc\nimport \"sync\"\nvar mu sync.Mutex\n", "imports sync"},
		{"randomness", "\n-- internal/multicast/a.go --\npackage multicast\nimport \"math/rand/v2\"\nvar r = rand.Int()\n", "imports math/rand/v2"},
		{"secrets", "\n-- internal/multicast/a.go --\npackage multicast\nimport \"crypto/rand\"\nvar r = rand.Text()\n", "imports crypto/rand"},
		{"a logger", "\n-- nullsend/a.go --\npackage nullsend\nimport \"log/slog\"\nvar l = slog.Default()\n", "imports log/slog"},
		{"a plain logger", "\n-- nullsend/a.go --\npackage nullsend\nimport \"log\"\nvar l = log.Default()\n", "imports log"},
		{"a file", "\n-- sst/a.go --\npackage sst\nimport \"os\"\nvar f = os.Stdout\n", "imports os"},
		{"a file the old way", "\n-- sst/a.go --\npackage sst\nimport \"io/ioutil\"\nvar f = ioutil.Discard\n", "imports io/ioutil"},
		{"a socket", "\n-- sst/a.go --\npackage sst\nimport \"net\"\nvar c net.Conn\n", "imports net"},
		{"the system", "\n-- sst/a.go --\npackage sst\nimport \"golang.org/x/sys/unix\"\nvar e = unix.EAGAIN\n", "imports golang.org/x/sys/unix"},
		{"the system the old way", "\n-- sst/a.go --\npackage sst\nimport \"syscall\"\nvar e = syscall.EAGAIN\n", "imports syscall"},
		{"a core with a clock", "\n-- internal/restart/lead.go --\npackage restart\nimport \"time\"\nvar now = time.Now\n", "time.Now"},
		{"its shell", "\n-- internal/restart/run.go --\npackage restart\nimport \"time\"\nvar now = time.Now\n", ""},
		{"an address", "\n-- internal/join/message.go --\npackage join\nimport \"net\"\nvar ip = net.ParseIP\n", ""},
		{"a dialer", "\n-- internal/join/message.go --\npackage join\nimport \"net\"\nvar dial = net.Dial\n", "imports net"},
		{"a file for another platform", "\n-- sst/a_windows.go --\n//go:build windows\n\npackage sst\nimport \"os\"\n", "imports os"},
		{"what is allowed", `
-- sst/a.go --
package sst
import (
	"sync/atomic"
	"time"
)
func f(now time.Time, d time.Duration) time.Time { atomic.AddUint64(&n, 1); return now.Add(d) }
-- sst/a_test.go --
package sst
import "os"
func g() { go f() }
-- fabric/a.go --
package fabric
import "net"
`, ""},
	})
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
