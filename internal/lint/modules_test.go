package lint

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// nested are the directories of the modules other than the library's, the innermost first.
var nested = []string{"bench", "cmd/squall", "examples/etcd/benchmark", "examples/etcd"}

// moduleOf returns the directory of the module that a package belongs to; "" is the library's.
func moduleOf(pkg string) string {
	for _, dir := range nested {
		if pkg == dir || strings.HasPrefix(pkg, dir+"/") {
			return dir
		}
	}
	return ""
}

// theLibraryImportsNoOtherModule looks at tests, too: what they import is in the library's go.mod.
func theLibraryImportsNoOtherModule(m *module) {
	for _, f := range m.files {
		if moduleOf(f.pkg()) != "" {
			continue
		}
		f.imports(func(spec *ast.ImportSpec, p string) {
			if q, ok := local(p); ok && moduleOf(q) != "" {
				m.fault(spec.Pos(), "%s, of the library, imports %s of module %s", f.pkg(), q, moduleOf(q))
			}
		})
	}
}

func TestTheLibraryImportsNoOtherModule(t *testing.T) { hold(t, theLibraryImportsNoOtherModule) }

func TestAnImportOfAnotherModuleIsFound(t *testing.T) {
	catches(t, theLibraryImportsNoOtherModule, []violation{
		{"the command", `
-- group_test.go --
package squall_test
import _ "github.com/squall-go/squall/cmd/squall/internal/testlab"
`, "of the library, imports cmd/squall/internal/testlab of module cmd/squall"},
		{"the other way", `
-- cmd/squall/main.go --
package main
import _ "github.com/squall-go/squall/internal/sim"
-- examples/hello/main.go --
package main
import _ "github.com/squall-go/squall"
`, ""},
	})
}

// Every go.mod of the repository is in the list that the rules use.
func TestAllModulesAreKnown(t *testing.T) {
	for _, dir := range append(nested, "") {
		text := document(t, filepath.Join(dir, "go.mod"))
		if want := "module " + strings.TrimSuffix(modulePath+"/"+dir, "/") + "\n"; !strings.HasPrefix(text, want) {
			t.Errorf("%s/go.mod does not begin with %q", dir, want)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "*", "go.mod"))
	for _, deeper := range []string{"*/*/go.mod", "*/*/*/go.mod"} {
		more, _ := filepath.Glob(filepath.Join(root, deeper))
		files = append(files, more...)
	}
	if err != nil || len(files) != len(nested) {
		t.Errorf("the repository has %d modules besides the library, not %d: %q, %v", len(files), len(nested), files, err)
	}
}

// maxRequired is how many modules the library may require itself. Each more is one more for every
// user, and has a record in docs/decisions.
const maxRequired = 12

func TestTheLibraryRequiresFewModules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var direct []string
	for _, line := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+) v\S+$`).FindAllStringSubmatch(string(text), -1) {
		direct = append(direct, line[1])
	}
	if len(direct) == 0 || len(direct) > maxRequired {
		t.Errorf("go.mod requires %d modules, more than %d: %q", len(direct), maxRequired, direct)
	}
	for _, tool := range []string{"github.com/spf13/cobra", "github.com/hanwen/go-fuse/v2", "honnef.co/go/tools"} {
		if slices.Contains(direct, tool) {
			t.Errorf("the library requires %s, which only tools need", tool)
		}
	}
}
