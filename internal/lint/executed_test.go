package lint

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// What is not executed is not written. A package comment declares an invariant on an indented line,
// its id in front and two blanks behind:
//
//	S1  nothing is delivered that was not received
//
// The id must come back where the invariant is checked: in a string (that of invariants.Check, or a
// test's message), in a comment beside the check, or in the name of a test. Ranges count for all
// they cover, "N1 to N4" or "N1–N4". A package comment, and any file doc.go, only declares. An id
// has one declaration in all packages: it means the same wherever it stands.
var (
	declaration = regexp.MustCompile(`(?m)^\s+(?:- )?([A-Z]{1,2}[0-9]{1,2})\s{2,}\S`)
	mention     = regexp.MustCompile(`\b([A-Z]{1,2})([0-9]{1,2})(?:(?: to |–|-|\.\.|…)([A-Z]{1,2})([0-9]{1,2}))?\b`)
	testName    = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)_?([A-Z]{1,2}[0-9]{1,2})(?:[^0-9]|$)`)
)

// unrelated packages use ids as examples.
var unrelated = []string{"internal/invariants", "internal/lint"}

type invariant struct {
	id, pkg string
	at      token.Pos
}

func invariantsAreExecuted(m *module) {
	mentions := map[string]bool{}
	for _, f := range m.files {
		if !slices.Contains(unrelated, f.pkg()) && path.Base(f.name) != "doc.go" {
			for _, id := range mentioned(f.syntax, f.isTest()) {
				mentions[id] = true
			}
		}
	}
	first := map[string]string{} // by id: the package that declares it
	for _, d := range declarations(m) {
		if pkg, again := first[d.id]; again {
			m.fault(d.at, "%s of %s is declared by %s, too", d.id, d.pkg, pkg)
			continue
		}
		first[d.id] = d.pkg
		if !mentions[d.id] {
			m.fault(d.at, "%s of %s is declared, and executed nowhere", d.id, d.pkg)
		}
	}
}

func declarations(m *module) (found []invariant) {
	for _, f := range m.files {
		if slices.Contains(unrelated, f.pkg()) || f.isTest() || f.syntax.Doc == nil {
			continue
		}
		for _, match := range declaration.FindAllStringSubmatch(f.syntax.Doc.Text(), -1) {
			found = append(found, invariant{id: match[1], pkg: f.pkg(), at: f.syntax.Doc.Pos()})
		}
	}
	return found
}

// mentioned lists the ids in a file's comments, strings and names of tests, the package comment
// left out.
func mentioned(f *ast.File, isTest bool) (ids []string) {
	for _, c := range f.Comments {
		if c != f.Doc {
			ids = append(ids, idsIn(c.Text())...)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				ids = append(ids, idsIn(n.Value)...)
			}
		case *ast.FuncDecl:
			if name := testName.FindStringSubmatch(n.Name.Name); isTest && name != nil {
				ids = append(ids, name[1])
			}
		}
		return true
	})
	return ids
}

// idsIn returns the ids in a text, ranges expanded.
func idsIn(text string) (ids []string) {
	for _, m := range mention.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] == m[1] {
			last, _ = strconv.Atoi(m[4])
		} else if m[3] != "" {
			ids = append(ids, m[3]+m[4]) // "V1-F2" is two ids
		}
		for i := first; i <= last; i++ {
			ids = append(ids, m[1]+strconv.Itoa(i))
		}
	}
	return ids
}

func TestEveryInvariantIsExecuted(t *testing.T) { hold(t, invariantsAreExecuted) }

func TestAnInvariantThatNothingExecutesIsFound(t *testing.T) {
	const doc = `
-- smc/doc.go --
// Package smc is a sample.
//
// Invariants:
//
//	S1  one
//	S2  two
//	    and its second line, which speaks of S3
package smc

// S1 and S2 in a file that only declares.
`
	catches(t, invariantsAreExecuted, []violation{
		{"forgotten", doc + "-- smc/ring.go --\npackage smc\n\n// S1: beside the check.\n", "S2 of smc is declared"},
		{"another number", doc + "-- smc/ring.go --\npackage smc\n\n// S1 S21 AS2 S2x\n", "S2 of smc is declared"},
		{"only in its declaration", `
-- smc/ring.go --
// Package smc is a sample.
//
//	S1  one
package smc
`, "S1 of smc is declared"},
		{"in a call and a comment", doc + "-- internal/sim/check.go --\npackage sim\n\nfunc f() {\n\tcheck(ok, \"S1\") // S2\n}\n", ""},
		{"in a test's name", doc + "-- smc/ring_test.go --\npackage smc\n\nfunc TestS1Holds() {}\nfunc TestS2() {}\n", ""},
		{"in a range", doc + "-- smc/ring_test.go --\npackage smc\n\n// S1 to S2\n", ""},
		{"of two packages", doc + `
-- sst/doc.go --
// Package sst is another.
//
//	S1  another one
package sst
-- smc/ring.go --
package smc

var _ = "S1 S2"
`, "S1 of sst is declared by smc, too"},
	})
}
