package lint

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/invariants.md has a section "### [`package`](link)" for each package that declares
// invariants, and in it an entry "- **id** …" or "- **id**, **id** …" for each of them, which says
// why it holds. The words of an invariant are in the package comment only.
var (
	section   = regexp.MustCompile("^### \\[`([^`]+)`\\]\\(([^)]+)\\)$")
	entry     = regexp.MustCompile(`^- ((?:\*\*[A-Z]{1,2}[0-9]{1,2}\*\*,? )+)\S`)
	entryID   = regexp.MustCompile(`[A-Z]{1,2}[0-9]{1,2}`)
	codeName  = regexp.MustCompile("`([^`\n]+)`")
	testsName = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
	callName  = regexp.MustCompile(`^(?:\w+\.)*(\w+)\(\)$`)
	placeName = regexp.MustCompile("`([\\w/]+\\.go)`: `(?:\\w+\\.)*(\\w+)\\(\\)`|`(?:\\w+\\.)*(\\w+)\\(\\)` (?:in|of) `([\\w/]+\\.go)`")
)

// documented returns the invariants that have an entry in a document.
func documented(text string) (found []invariant) {
	pkg := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if match := section.FindStringSubmatch(line); match != nil && path.Dir(path.Join("docs", match[2])) == match[1] {
			pkg = match[1]
		} else if strings.HasPrefix(line, "#") {
			pkg = ""
		}
		if match := entry.FindStringSubmatch(line); match != nil {
			for _, id := range entryID.FindAllString(match[1], -1) {
				found = append(found, invariant{id: id, pkg: pkg})
			}
		}
	}
	return found
}

// protocolIsKept compares the entries of a document with what is declared.
func protocolIsKept(text string) rule {
	return func(m *module) {
		var declared []invariant
		for _, d := range declarations(m) {
			declared = append(declared, invariant{id: d.id, pkg: d.pkg})
		}
		written := documented(text)
		for _, d := range declared {
			if !slices.Contains(written, d) {
				m.faults = append(m.faults, d.id+" of "+d.pkg+" is declared, and has no entry in docs/invariants.md")
			}
		}
		for i, w := range written {
			if !slices.Contains(declared, w) {
				m.faults = append(m.faults, "docs/invariants.md has "+w.id+" below "+w.pkg+", which does not declare it")
			} else if slices.Contains(written[:i], w) {
				m.faults = append(m.faults, "docs/invariants.md has two entries for "+w.id)
			}
		}
	}
}

// namesExist looks up what a document names in code: `some/file.go` and `function()` anywhere,
// `TestSomething` among tests, and "`some/file.go`: `function()`" and "`function()` in
// `some/file.go`" in that file. A file may be named by the end of its path.
func namesExist(document, text string) rule {
	return func(m *module) {
		functions, tests := map[string]bool{}, map[string]bool{}
		in := map[string][]string{} // by function: the files that have one of that name
		for _, f := range m.files {
			for _, d := range f.syntax.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					functions[d.Name.Name] = true
					in[d.Name.Name] = append(in[d.Name.Name], f.name)
					tests[d.Name.Name] = tests[d.Name.Name] || f.isTest()
				}
			}
		}
		isFile := func(name string) bool {
			return slices.ContainsFunc(m.files, func(f file) bool { return f.name == name || strings.HasSuffix(f.name, "/"+name) })
		}
		for _, match := range placeName.FindAllStringSubmatch(text, -1) {
			file, function := match[1]+match[4], match[2]+match[3]
			if isFile(file) && functions[function] && !slices.ContainsFunc(in[function], func(name string) bool { return name == file || strings.HasSuffix(name, "/"+file) }) {
				m.faults = append(m.faults, document+" names "+function+" in "+file+", which is not there")
			}
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

// limitsExist looks up what the page of limits names as set by a constant or a field.
func limitsExist(page string) rule {
	return func(m *module) {
		names := map[string]bool{}
		for _, f := range m.files {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					names[id.Name] = true
				}
				return true
			})
		}
		for line := range strings.Lines(page) {
			cells := strings.Split(line, "|")
			if len(cells) < 5 {
				continue
			}
			for _, match := range codeName.FindAllStringSubmatch(cells[2], -1) {
				if name := strings.TrimSuffix(match[1][strings.LastIndex(match[1], ".")+1:], "()"); !strings.Contains(name, "/") && !names[name] {
					m.faults = append(m.faults, "docs/limits.md names "+match[1]+", which does not exist")
				}
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

func TestEveryInvariantHasAnArgument(t *testing.T) {
	hold(t, protocolIsKept(document(t, "docs/invariants.md")))
}

func TestWhatThePagesNameExists(t *testing.T) {
	for name, text := range pages(t) {
		if name == "README.md" || path.Dir(name) == "docs" {
			hold(t, namesExist(name, text))
		}
	}
}

func TestTheLimitsNameWhatExists(t *testing.T) { hold(t, limitsExist(document(t, "docs/limits.md"))) }

func TestALimitThatDoesNotExistIsFound(t *testing.T) {
	const source sample = "\n-- smc/ring.go --\npackage smc\n\nconst maxRing = 1\n"
	for page, found := range map[string]bool{
		"| a | `maxRing` | 1 | b |\n":                 false,
		"| a | `Config.maxRing` in `smc` | 1 | b |\n": false,
		"| a | `maxRings` | 1 | `c` |\n":              true,
		"| a | x | `maxRings` | b |\n":                false,
	} {
		m := source.parse(t)
		limitsExist(page)(m)
		if (len(m.faults) > 0) != found {
			t.Errorf("%s: found %q", page, m.faults)
		}
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
	const one, two = "### [`smc`](../smc/doc.go)\n\n- **S1** why\n", "- **S2** why\n"
	for name, c := range map[string]struct{ text, want string }{
		"kept":                   {one + two, ""},
		"forgotten":              {one, "S2 of smc is declared"},
		"in one entry":           {strings.Replace(one, "**S1**", "**S1**, **S2**", 1), ""},
		"without an argument":    {one + "- **S2**\n", "S2 of smc is declared"},
		"twice":                  {one + two + two, "two entries for S2"},
		"in another package":     {one + "### [`sst`](../sst/doc.go)\n\n" + two, "S2 of smc is declared"},
		"in a section elsewhere": {strings.Replace(one, "../smc", "../sst", 1) + two, "S1 of smc is declared"},
		"outside the sections":   {one + "## Else\n\n" + two, "S2 of smc is declared"},
		"one that is no more":    {one + two + "- **S3** why\n", "has S3 below smc"},
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
	const source sample = "\n-- smc/other.go --\npackage smc\n-- smc/ring.go --\npackage smc\n\nfunc (s *S) Claim() {}\n-- smc/ring_test.go --\npackage smc\n\nfunc TestS1() {}\n"
	for text, found := range map[string]bool{
		"`ring.go` `smc/ring.go` `Claim()` `Sender.Claim()` `TestS1` `n.go of` `Claim`": false,
		"`pool.go`":  true,
		"`ing.go`":   true,
		"`Commit()`": true,
		"`TestS2`":   true,
		"`smc/ring.go`: `S.Claim()`, `Claim()` in `ring.go`": false,
		"`other.go`: `S.Claim()`":                            true,
		"`Sender.Claim()` in `other.go`":                     true,
	} {
		m := source.parse(t)
		namesExist("a document", text)(m)
		if (len(m.faults) > 0) != found {
			t.Errorf("%s: found %q", text, m.faults)
		}
	}
}
