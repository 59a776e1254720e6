package copy

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzEntries offers a receiver arbitrary entries: the receiver refuses them, or they stay inside
// the target directory (C1).
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
		if err != nil {
			return
		}
		sum := int64(0)
		for _, e := range entries {
			sum += e.Size
		}
		if sum != total {
			t.Fatalf("%d of %d bytes", sum, total)
		}
		for _, e := range entries {
			if !filepath.IsLocal(e.Path) || e.Kind == link && (strings.HasPrefix(e.To, "/") || !filepath.IsLocal(filepath.Join(filepath.Dir(e.Path), e.To))) {
				t.Fatalf("C1: %+v", e)
			}
		}
	})
}
