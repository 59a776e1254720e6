package lint

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	notInID  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	inCode   = regexp.MustCompile(`\bdocs/[\w./-]+\.\w+`)
	decision = regexp.MustCompile(`\b(?:docs/decisions/|decision\s+)(\d{4})\b`)
)

// pages returns the Markdown files of the repository by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		found[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// anchors returns the ids that headings of a page get where pages are shown.
func anchors(page string) (ids []string) {
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(h[1], "")
		ids = append(ids, strings.ReplaceAll(notInID.ReplaceAllString(strings.ToLower(text), ""), " ", "-"))
	}
	return ids
}

// deadLinks returns the links of pages, and the references of code to pages, that lead nowhere.
func deadLinks(pages map[string]string, m *module, exists func(name string) bool) (dead []string) {
	for name, text := range pages {
		for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if strings.Contains(l[1], ":") {
				continue // elsewhere
			}
			target, anchor, hasAnchor := strings.Cut(l[1], "#")
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			if page, ok := pages[to]; !exists(to) || hasAnchor && ok && !slices.Contains(anchors(page), anchor) {
				dead = append(dead, name+": "+l[1])
			}
		}
	}
	isDecision := func(number string) bool {
		for name := range pages {
			if strings.HasPrefix(name, "docs/decisions/"+number) {
				return true
			}
		}
		return false
	}
	for _, f := range m.files {
		if f.pkg() == "internal/lint" {
			continue
		}
		for _, name := range inCode.FindAll(f.source, -1) {
			if !exists(string(name)) {
				dead = append(dead, f.name+": "+string(name))
			}
		}
		for _, c := range f.syntax.Comments {
			for _, d := range decision.FindAllStringSubmatch(c.Text(), -1) {
				if !isDecision(d[1]) {
					dead = append(dead, f.name+": decision "+d[1])
				}
			}
		}
	}
	slices.Sort(dead)
	return dead
}

func TestNoLinkIsDead(t *testing.T) {
	m, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deadLinks(pages(t), m, func(name string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		return err == nil
	}) {
		t.Error(d)
	}
}

func TestADeadLinkIsFound(t *testing.T) {
	const code sample = `
-- smc/ring.go --
package smc

// See docs/guide.md, docs/none.md, decision 0001 and docs/decisions/0002.
`
	found := deadLinks(map[string]string{
		"README.md":              "# A `b` (c)\n[x](docs/guide.md) [x](docs/none.md) [x](#a-b-c) [x](#b) [x](https://example.org/none)\n```\n[x](y)\n```\n",
		"docs/guide.md":          "## Two words\n[x](../README.md#a-b-c) [x](#two-words) [x](../README.md#two-words)\n",
		"docs/decisions/0001.md": "",
	}, code.parse(t), func(name string) bool {
		return slices.Contains([]string{"README.md", "docs/guide.md"}, name)
	})
	want := []string{"README.md: #b", "README.md: docs/none.md", "docs/guide.md: ../README.md#two-words",
		"smc/ring.go: decision 0002", "smc/ring.go: docs/none.md"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
