package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// avoided are words that texts for users must not have, with what to write instead: the table
// "Words to avoid" of the glossary.
type avoided struct {
	word    *regexp.Regexp
	instead string
}

// readAvoided reads the table. A cell lists words, separated by commas.
func readAvoided(glossary string) (all []avoided) {
	_, section, _ := strings.Cut(glossary, "## Words to avoid\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[1]) == "avoid" {
			continue
		}
		for word := range strings.SplitSeq(cells[1], ",") {
			all = append(all, avoided{regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(strings.TrimSpace(word)) + `\b`), strings.TrimSpace(cells[2])})
		}
	}
	return all
}

// find returns the faults of a text.
func find(words []avoided, text string) (faults []string) {
	for _, w := range words {
		if found := w.word.FindString(text); found != "" {
			faults = append(faults, fmt.Sprintf("%q: write %s", found, w.instead))
		}
	}
	return faults
}

// unread are packages whose texts no user reads: of tests, and of the simulator.
var unread = map[string]bool{"internal/fabrictest": true, "internal/lint": true, "internal/mutant": true, "internal/sim": true, "cmd/squall/internal/testlab": true}

// textsArePlain looks at the strings of a program that have a space: errors, events and help.
func textsArePlain(words []avoided) rule {
	return func(m *module) {
		for _, f := range m.files {
			if f.isTest() || unread[f.pkg()] {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && strings.Contains(l.Value, " ") {
					for _, fault := range find(words, l.Value) {
						m.fault(l.Pos(), "%s", fault)
					}
				}
				return true
			})
		}
	}
}

// commentsArePlain looks at the comments that go doc shows of the library's public packages.
func commentsArePlain(words []avoided) rule {
	return func(m *module) {
		for _, f := range m.files {
			if f.isTest() || isInternal(f.pkg()) || f.syntax.Name.Name == "main" {
				continue
			}
			for _, c := range published(f.syntax) {
				for _, fault := range find(words, strings.Join(strings.Fields(c.Text()), " ")) {
					m.fault(c.Pos(), "%s", fault)
				}
			}
		}
	}
}

// published returns the comments of a package and of its exported names.
func published(file *ast.File) (comments []*ast.CommentGroup) {
	add := func(is bool, groups ...*ast.CommentGroup) bool {
		for _, c := range groups {
			if is && c != nil {
				comments = append(comments, c)
			}
		}
		return is
	}
	exported := func(names []*ast.Ident) bool {
		return len(names) == 0 || slices.ContainsFunc(names, (*ast.Ident).IsExported)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.File:
			return add(true, n.Doc)
		case *ast.GenDecl:
			return add(slices.ContainsFunc(n.Specs, showsName), n.Doc)
		case *ast.TypeSpec:
			return add(n.Name.IsExported(), n.Doc, n.Comment)
		case *ast.ValueSpec:
			add(exported(n.Names), n.Doc, n.Comment)
			return false
		case *ast.Field:
			return add(exported(n.Names), n.Doc, n.Comment)
		case *ast.FuncDecl:
			add(n.Name.IsExported() && (n.Recv == nil || receiverIsExported(n.Recv)), n.Doc)
			return false
		}
		return true
	})
	return comments
}

func showsName(s ast.Spec) bool {
	switch s := s.(type) {
	case *ast.TypeSpec:
		return s.Name.IsExported()
	case *ast.ValueSpec:
		return slices.ContainsFunc(s.Names, (*ast.Ident).IsExported)
	}
	return false
}

// plainPages are the pages and comments that a newcomer reads first.
var plainPages = []string{"README.md", "docs/guide.md", "docs/limits.md", "doc.go", "config.go"}

func glossary(t *testing.T) []avoided {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := readAvoided(string(text))
	if len(words) < 10 {
		t.Fatalf("the glossary lists %d words to avoid", len(words))
	}
	return words
}

func TestTextsForUsersArePlain(t *testing.T) { hold(t, textsArePlain(glossary(t))) }

func TestCommentsOfExportedNamesArePlain(t *testing.T) { hold(t, commentsArePlain(glossary(t))) }

func TestTheFirstPagesArePlain(t *testing.T) {
	words := glossary(t)
	for _, page := range plainPages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, fault := range find(words, line) {
				t.Errorf("%s:%d: %s", page, i+1, fault)
			}
		}
	}
}

func TestAWordToAvoidIsFound(t *testing.T) {
	words := readAvoided("# Glossary\n\n## Words to avoid\n\n| avoid | write |\n|---|---|\n| beside, on its way | next to; in flight |\n| room | space |\n\n## Next\n\n| word | other |\n")
	if len(words) != 3 {
		t.Fatalf("the table has %d words", len(words))
	}
	catches(t, textsArePlain(words), []violation{
		{"a word", "\n-- a/a.go --\npackage a\n\nvar e = \"no room here\"\n", "write space"},
		{"at the start", "\n-- a/a.go --\npackage a\n\nvar e = `Beside the point`\n", "write next to"},
	})
	catches(t, commentsArePlain(words), []violation{
		{"a package", "\n-- a/a.go --\n// Package a is beside\n// others.\npackage a\n", "write next to"},
		{"a function", "\n-- a/a.go --\npackage a\n\n// F is on its\n// way.\nfunc F() {}\n", "on its way"},
		{"a method", "\n-- a/a.go --\npackage a\n\n// M has room.\nfunc (t *T) M() {}\n", "write space"},
		{"a field", "\n-- a/a.go --\npackage a\n\ntype T struct {\n\tA int // its room\n}\n", "write space"},
		{"a constant", "\n-- a/a.go --\npackage a\n\nconst (\n\tA = 1 // its room\n)\n", "write space"},
		{"names that are not shown", "\n-- a/a.go --\npackage a\n\n// No room.\ntype t struct{ A int /* room */ }\n\n// No room.\nfunc (t) M() { /* room */ }\n\nvar (\n\ta = 1 // room\n\tB = 2\n)\n", ""},
		{"an internal package", "\n-- a/internal/b/b.go --\n// Package b has no room.\npackage b\n", ""},
	})
	if faults := find(words, "a roomy house, besides"); len(faults) != 0 {
		t.Errorf("parts of words are found: %v", faults)
	}
}

// repeated returns the terms that a glossary defines more than once.
func repeated(glossary string) (terms []string) {
	glossary, _, _ = strings.Cut(glossary, "## Words to avoid\n")
	seen := map[string]bool{}
	for line := range strings.Lines(glossary) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[1]) == "term" {
			continue
		}
		for term := range strings.SplitSeq(cells[1], ",") {
			if term = strings.TrimSpace(term); seen[term] {
				terms = append(terms, term)
			}
			seen[term] = true
		}
	}
	return terms
}

func TestTheGlossaryHasEachTermOnce(t *testing.T) {
	if terms := repeated(document(t, "docs/glossary.md")); len(terms) > 0 {
		t.Errorf("docs/glossary.md defines %q more than once", terms)
	}
	const sample = "| term | meaning |\n|---|---|\n| ring, turn | a |\n\n| term | meaning |\n|---|---|\n| turn | b |\n## Words to avoid\n| ring | c |\n"
	if terms := repeated(sample); !slices.Equal(terms, []string{"turn"}) {
		t.Errorf("found %q in a glossary that defines turn twice", terms)
	}
}
