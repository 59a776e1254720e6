package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// maxColumns is how wide a comment may be, in characters.
const maxColumns = 100

var prose = regexp.MustCompile(`^\t*// [^ ]`)

// commentsAreNarrow looks at prose on lines of its own. Tables, drawings, code and links have the
// width that they need.
func commentsAreNarrow(m *module) {
	for _, f := range m.files {
		lines := strings.Split(string(f.source), "\n")
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				at := m.fset.Position(c.Pos())
				line := lines[at.Line-1]
				indent := strings.Count(line, "\t")
				columns := len([]rune(line))
				if prose.MatchString(line) && columns > maxColumns && strings.Count(line, " ") > 2+indent {
					m.fault(c.Pos(), "a comment of %d columns, more than %d", columns, maxColumns)
				}
			}
		}
	}
}

// importsAreGrouped wants what goimports makes: the standard library in front, and other modules in
// groups of their own.
func importsAreGrouped(m *module) {
	for _, f := range m.files {
		for _, d := range f.syntax.Decls {
			if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.IMPORT {
				groups(m, d)
			}
		}
	}
}

func groups(m *module, d *ast.GenDecl) {
	others, last := false, 0
	for i, s := range d.Specs {
		spec := s.(*ast.ImportSpec)
		line := m.fset.Position(spec.Pos()).Line
		first, _, _ := strings.Cut(strings.Trim(spec.Path.Value, `"`), "/")
		other := strings.Contains(first, ".")
		switch {
		case i == 0:
		case others && !other:
			m.fault(spec.Pos(), "the standard library's %s stands after other modules", spec.Path.Value)
		case other && !others && line == last+1:
			m.fault(spec.Pos(), "%s stands in a group with the standard library", spec.Path.Value)
		}
		others, last = others || other, line
	}
}

func TestCommentsAreNarrow(t *testing.T) { hold(t, commentsAreNarrow) }
func TestImportsAreGrouped(t *testing.T) { hold(t, importsAreGrouped) }

func TestAWideCommentIsFound(t *testing.T) {
	long := strings.Repeat("word ", 20)
	catches(t, commentsAreNarrow, []violation{
		{"too wide", sample("\n-- order/a.go --\npackage order\n\n// " + long + "\n"), "a comment of 103 columns"},
		{"with tabs", sample("\n-- order/a.go --\npackage order\n\nfunc f() {\n\t// " + long[:98] + "\n}\n"), "a comment of 102"},
		{"a table", sample("\n-- order/a.go --\npackage order\n\n//\t" + long + "\n"), ""},
		{"a link", sample("\n-- order/a.go --\npackage order\n\n// See https://example.org/" + strings.Repeat("x", 100) + "\n"), ""},
		{"after code", sample("\n-- order/a.go --\npackage order\n\nvar a int // " + long + "\n"), ""},
	})
}

func TestImportsOutOfTheirGroupAreFound(t *testing.T) {
	catches(t, importsAreGrouped, []violation{
		{"in one group", "\n-- order/a.go --\npackage order\n\nimport (\n\t\"fmt\"\n\t\"github.com/a/b\"\n)\n", "in a group with the standard library"},
		{"after", "\n-- order/a.go --\npackage order\n\nimport (\n\t\"github.com/a/b\"\n\n\t\"fmt\"\n)\n", "stands after other modules"},
		{"as goimports has it", "\n-- order/a.go --\npackage order\n\nimport (\n\t\"fmt\"\n\t\"io\"\n\n\t\"github.com/a/b\"\n\n\t\"golang.org/x/sys/unix\"\n)\n", ""},
	})
}
