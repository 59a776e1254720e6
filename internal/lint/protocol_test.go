package lint

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/protocol.md has a section "### `package`" for each package that declares invariants, with a row "| id | sentence | …" for each of
// them. It repeats the sentences of the package comments, so that neither can change without the other.
var (
	section   = regexp.MustCompile("^### `([^`]+)`$")
	row       = regexp.MustCompile(`^\| ([A-Z]{1,2}[0-9]{1,2}) \| ([^|]+) \|`)
	codeName  = regexp.MustCompile("`([^`\n]+)`")
	testsName = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
	callName  = regexp.MustCompile(`^(?:\w+\.)*(\w+)\(\)$`)
)

// sentence is an invariant as it is written down: in which package, under which id.
type sentence struct{ pkg, id string }

// sentences returns the invariants that the package comments declare, with their words in single
// spacing.
func sentences(m *module) map[sentence]string {
	found := map[sentence]string{}
	for _, f := range m.files {
		if slices.Contains(unrelated, f.pkg()) || f.isTest() || f.syntax.Doc == nil {
			continue
		}
		at := sentence{}
		for line := range strings.Lines(f.syntax.Doc.Text()) {
			if match := declaration.FindStringSubmatch(line); match != nil {
				at = sentence{f.pkg(), match[1]}
				_, line, _ = strings.Cut(line, match[1])
			} else if !strings.HasPrefix(line, "\t  ") { // what goes on is indented more than the id
				at = sentence{}
			}
			if at.id != "" {
				found[at] = strings.Join(append(strings.Fields(found[at]), strings.Fields(line)...), " ")
			}
		}
	}
	return found
}

// documented are the sentences of a document.
func documented(text string) map[sentence]string {
	found := map[sentence]string{}
	pkg := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if match := section.FindStringSubmatch(line); match != nil {
			pkg = match[1]
		} else if strings.HasPrefix(line, "#") {
			pkg = ""
		}
		if match := row.FindStringSubmatch(line); match != nil && pkg != "" {
			found[sentence{pkg, match[1]}] = match[2]
		}
	}
	return found
}

func bySentence(a, b sentence) int { return strings.Compare(a.pkg+" "+a.id, b.pkg+" "+b.id) }

// protocolIsKept compares a document with what is declared.
func protocolIsKept(text string) rule {
	return func(m *module) {
		declared, written := sentences(m), documented(text)
		for _, s := range slices.SortedFunc(maps.Keys(declared), bySentence) {
			switch have := written[s]; {
			case have == "":
				m.faults = append(m.faults, s.id+" of "+s.pkg+" is declared, and is not in docs/protocol.md")
			case have != declared[s]:
				m.faults = append(m.faults, s.id+" of "+s.pkg+" reads "+declared[s]+"; docs/protocol.md says "+have)
			}
		}
		for _, s := range slices.SortedFunc(maps.Keys(written), bySentence) {
			if declared[s] == "" {
				m.faults = append(m.faults, "docs/protocol.md has "+s.id+" of "+s.pkg+", which is not declared there")
			}
		}
	}
}

// namesExist looks up what a document names in code: `some/file.go` and `function()` anywhere, `TestSomething` among tests. A
// file may be named by the end of its path.
func namesExist(document, text string) rule {
	return func(m *module) {
		functions, tests := map[string]bool{}, map[string]bool{}
		for _, f := range m.files {
			for _, d := range f.syntax.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					functions[d.Name.Name] = true
					tests[d.Name.Name] = tests[d.Name.Name] || f.isTest()
				}
			}
		}
		isFile := func(name string) bool {
			return slices.ContainsFunc(m.files, func(f file) bool { return f.name == name || strings.HasSuffix(f.name, "/"+name) })
		}
		for _, match := range codeName.FindAllStringSubmatch(text, -1) {
			name := match[1]
			call := callName.FindStringSubmatch(name)
			switch {
			case strings.HasSuffix(name, ".go") && !strings.Contains(name, " ") && !isFile(name),
				testsName.MatchString(name) && !tests[name],
				call != nil && !functions[call[1]]:
				m.faults = append(m.faults, document+" names "+name+", which does not exist")
			}
		}
	}
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryInvariantIsInTheProtocolDocument(t *testing.T) {
	hold(t, protocolIsKept(document(t, "docs/protocol.md")))
}

func TestWhatTheDocumentsNameExists(t *testing.T) {
	for _, name := range []string{"README.md", "docs/architecture.md", "docs/consistency.md", "docs/formats.md", "docs/protocol.md", "docs/ripc.md", "docs/services.md", "docs/testing.md"} {
		hold(t, namesExist(name, document(t, name)))
	}
}

func TestAProtocolDocumentThatIsNotKeptIsFound(t *testing.T) {
	const source sample = `
-- smc/doc.go --
// Package smc is a sample.
//
// Invariants:
//
//	S1  one
//	S2  two
//	    and its second line
//
// Something else.
package smc
`
	const one, two = "### `smc`\n\n| S1 | one | why | where |\n", "| S2 | two and its second line | why | where |\n"
	for name, c := range map[string]struct{ text, want string }{
		"kept":                {one + two, ""},
		"forgotten":           {one, "S2 of smc is declared"},
		"other words":         {one + "| S2 | two and more | why | where |\n", "S2 of smc reads two and its second line"},
		"in another package":  {one + "### `sst`\n\n" + two, "S2 of smc is declared"},
		"outside the tables":  {one + "## Else\n\n" + two, "S2 of smc is declared"},
		"one that is no more": {one + two + "| S3 | three | why | where |\n", "has S3 of smc"},
	} {
		t.Run(name, func(t *testing.T) {
			m := source.parse(t)
			protocolIsKept(c.text)(m)
			if c.want == "" && len(m.faults) > 0 || c.want != "" && (len(m.faults) == 0 || !strings.Contains(m.faults[0], c.want)) {
				t.Errorf("found %q, want %q", m.faults, c.want)
			}
		})
	}
}

func TestANameThatDoesNotExistIsFound(t *testing.T) {
	const source sample = "\n-- smc/ring.go --\npackage smc\n\nfunc (s *S) Claim() {}\n-- smc/ring_test.go --\npackage smc\n\nfunc TestS1() {}\n"
	for text, found := range map[string]bool{
		"`ring.go` `smc/ring.go` `Claim()` `Sender.Claim()` `TestS1` `n.go of` `Claim`": false,
		"`pool.go`":  true,
		"`ing.go`":   true,
		"`Commit()`": true,
		"`TestS2`":   true,
	} {
		m := source.parse(t)
		namesExist("a document", text)(m)
		if (len(m.faults) > 0) != found {
			t.Errorf("%s: found %q", text, m.faults)
		}
	}
}
