package lint

import (
	"bytes"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines is where a file has become two nouns.
const maxLines = 700

func filesAreShort(m *module) {
	for _, f := range m.files {
		if n := bytes.Count(f.source, []byte("\n")); n > maxLines {
			m.fault(f.syntax.Pos(), "%s has %d lines, more than %d", f.name, n, maxLines)
		}
	}
}

// Functions of programs have at most maxFunction lines, and 99 of 100 have at most mostFunctions.
const (
	maxFunction   = 60
	mostFunctions = 36
)

func functionsAreShort(m *module) {
	var all []int
	for _, f := range m.files {
		if f.isTest() {
			continue
		}
		for _, d := range f.syntax.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := m.fset.Position(d.End()).Line - m.fset.Position(d.Pos()).Line + 1
			if all = append(all, n); n > maxFunction {
				m.fault(d.Pos(), "%s has %d lines, more than %d", d.Name.Name, n, maxFunction)
			}
		}
	}
	slices.Sort(all)
	if n := len(all) * 99 / 100; n > 100 && all[n] > mostFunctions {
		m.fault(m.files[0].syntax.Pos(), "one of 100 functions has %d lines or more; at most %d", all[n], mostFunctions)
	}
}

// markers are put together from halves, so that the pattern does not find itself.
var markers = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

func nothingIsPutOff(m *module) {
	for _, f := range m.files {
		tokens := m.fset.File(f.syntax.FileStart)
		for _, at := range markers.FindAllIndex(f.source, -1) {
			m.fault(tokens.Pos(at[0]), "%s: do it or leave it", f.source[at[0]:at[1]])
		}
	}
}

// packagesAreExplained wants a package comment in the form that go doc shows, commands apart.
func packagesAreExplained(m *module) {
	explained := map[string]bool{}
	at := map[string]*ast.File{}
	for _, f := range m.files {
		if f.isTest() {
			continue
		}
		at[f.pkg()] = f.syntax
		name := f.syntax.Name.Name
		if doc := f.syntax.Doc.Text(); strings.HasPrefix(doc, "Package "+name+" ") || name == "main" && doc != "" {
			explained[f.pkg()] = true
		}
	}
	for _, pkg := range m.packages() {
		if f := at[pkg]; f != nil && !explained[pkg] {
			m.fault(f.Name.Pos(), "no file of %s begins with a comment \"Package %s …\"", pkg, f.Name.Name)
		}
	}
}

func TestNoFileIsLong(t *testing.T)            { hold(t, filesAreShort) }
func TestFunctionsAreShort(t *testing.T)       { hold(t, functionsAreShort) }
func TestNothingIsPutOff(t *testing.T)         { hold(t, nothingIsPutOff) }
func TestEveryPackageHasAComment(t *testing.T) { hold(t, packagesAreExplained) }

func TestALongFileIsFound(t *testing.T) {
	catches(t, filesAreShort, []violation{
		{"one line over", sample("\n-- order/a.go --\npackage order\n" + strings.Repeat("\n", maxLines)), "has 701 lines"},
		{"just short enough", sample("\n-- order/a.go --\npackage order\n" + strings.Repeat("\n", maxLines-1)), ""},
	})
}

func TestALongFunctionIsFound(t *testing.T) {
	body := strings.Repeat("\t_ = 0\n", maxFunction-1)
	catches(t, functionsAreShort, []violation{
		{"one line too many", sample("\n-- smc/a.go --\npackage smc\nfunc f() {\n" + body + "}\n"), "f has 61 lines"},
		{"a test", sample("\n-- smc/a_test.go --\npackage smc\nfunc f() {\n" + body + "}\n"), ""},
	})
}

func TestAMarkerIsFound(t *testing.T) {
	catches(t, nothingIsPutOff, []violation{
		{"in a comment", "\n-- order/a.go --\npackage order\n\n// TO" + "DO: later\n", "order/a.go:3:4"},
		{"in a string", "\n-- order/a_test.go --\npackage order\n\nvar s = \"FIX" + "ME\"\n", "FIX" + "ME"},
		{"inside a word", "\n-- order/a.go --\npackage order\n\n// XX" + "XL\n", ""},
	})
}

func TestAPackageWithoutACommentIsFound(t *testing.T) {
	catches(t, packagesAreExplained, []violation{
		{"none", "\n-- order/a.go --\npackage order\n", "no file of order"},
		{"detached", "\n-- order/a.go --\n// Package order is far away.\n\npackage order\n", "no file of order"},
		{"of another name", "\n-- order/a.go --\n// Package chaos is elsewhere.\npackage order\n", "no file of order"},
		{"in one of two files", "\n-- order/a.go --\n// Package order is here.\npackage order\n-- order/b.go --\npackage order\n", ""},
		{"a command", "\n-- cmd/squall/main.go --\n// Squall is a command.\npackage main\n", ""},
	})
}
