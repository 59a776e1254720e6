package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pure lists the packages whose results depend on their arguments alone. The simulator and model
// tests run them unchanged.
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
