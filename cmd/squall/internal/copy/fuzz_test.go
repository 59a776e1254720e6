package copy

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzEntries offers a receiver arbitrary entries: the receiver refuses them, or they stay inside
// the target directory and have pieces that cover them (C1).
func FuzzEntries(f *testing.F) {
	for _, seed := range []string{
		`[{"p":"a","s":5},{"p":"d","k":"d"},{"p":"d/l","k":"l","l":"../a"}]`, `[{"p":"../a"}]`, `[{"p":"a","s":9223372036854775807},{"p":"b","s":9223372036854775807}]`,
		`[{"p":"a","k":"l","l":"b/../../c"}]`, `[{"p":"a"},{"p":"a/b"}]`, `[{"p":"a","s":100000000}]`, `[{"p":"\ud800"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var entries []entry
		if json.Unmarshal(text, &entries) != nil {
			return
		}
		total, err := checkTree(entries)
		if err != nil || total > 1<<40 { // the pieces of more would not fit into memory
			return
		}
		covered := int64(0)
		for _, p := range cut(entries) {
			for _, at := range p.parts {
				covered += at.bytes
			}
		}
		if covered != total {
			t.Fatalf("%d of %d bytes", covered, total)
		}
		for _, e := range entries {
			if !filepath.IsLocal(e.Path) || e.Kind == link && (strings.HasPrefix(e.To, "/") || !filepath.IsLocal(filepath.Join(filepath.Dir(e.Path), e.To))) {
				t.Fatalf("C1: %+v", e)
			}
		}
	})
}
