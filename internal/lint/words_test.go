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
