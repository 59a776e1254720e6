package lint

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// exportsNoInternalTypes looks at what a user of a public package can name: no exported type,
// field, function, method, variable or constant has a type of an internal package, because code
// outside of the module could not name that type. Types of internal/extension are there for that:
// a program cannot call a method that takes one.
func exportsNoInternalTypes(m *module) {
	for _, f := range m.files {
		if f.isTest() || isInternal(f.pkg()) || strings.HasPrefix(f.pkg(), "cmd") {
			continue
		}
		internal := f.internalNames()
		for _, decl := range f.syntax.Decls {
			for name, typ := range exportedTypes(decl) {
				ast.Inspect(typ, func(n ast.Node) bool {
					if sel, ok := n.(*ast.SelectorExpr); ok {
						if x, ok := sel.X.(*ast.Ident); ok && internal[x.Name] != "" {
							m.fault(sel.Pos(), "%s mentions %s.%s, a type of %s", name, x.Name, sel.Sel.Name, internal[x.Name])
						}
					}
					return true
				})
			}
		}
	}
}

func isInternal(pkg string) bool { return strings.Contains("/"+pkg+"/", "/internal/") }

// internalNames are the names under which a file imports internal packages of this module.
func (f file) internalNames() map[string]string {
	names := map[string]string{}
	f.imports(func(spec *ast.ImportSpec, p string) {
		pkg, ok := local(p)
		if !ok || !isInternal(pkg) || pkg == "internal/extension" {
			return
		}
		name := p[strings.LastIndex(p, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	})
	return names
}

// exportedTypes yields the type expressions that a declaration shows, by the names that they are
// shown under.
func exportedTypes(decl ast.Decl) map[string]ast.Node {
	types := map[string]ast.Node{}
	add := func(name string, typ ast.Expr) {
		if typ != nil {
			types[name] = shown(name, typ, types)
		}
	}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || receiverIsExported(d.Recv)) {
			add(d.Name.Name, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					add(s.Name.Name, s.Type)
				}
			case *ast.ValueSpec:
				for i, name := range s.Names {
					if !name.IsExported() {
						continue
					}
					add(name.Name, s.Type)
					// A conversion, or a value that has a type of its own: constants of internal packages show it.
					if d.Tok == token.CONST && s.Type == nil && i < len(s.Values) {
						if sel, ok := s.Values[i].(*ast.SelectorExpr); ok {
							add(name.Name, sel)
						}
					}
				}
			}
		}
	}
	return types
}

// shown is a type without what no user sees of it: fields of a struct that are not exported.
func shown(name string, typ ast.Expr, types map[string]ast.Node) ast.Node {
	s, ok := typ.(*ast.StructType)
	if !ok {
		return typ
	}
	public := &ast.FieldList{}
	for i, field := range s.Fields.List {
		if len(field.Names) == 0 || ast.IsExported(field.Names[0].Name) { // one that is embedded has all that its type has
			types[name+", field "+strconv.Itoa(i)] = shown(name, field.Type, types)
			public.List = append(public.List, field)
		}
	}
	return &ast.Ident{NamePos: s.Pos(), Name: name}
}

func receiverIsExported(recv *ast.FieldList) bool {
	typ := recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return false
		}
	}
}

func TestPublicPackagesExportNoInternalTypes(t *testing.T) { hold(t, exportsNoInternalTypes) }

func TestAnInternalTypeInAPublicPackageIsFound(t *testing.T) {
	of := func(body sample) sample {
		return `
-- events.go --
package squall
import (
	"github.com/squall-go/squall/internal/join"
	other "github.com/squall-go/squall/internal/member"
)
` + body
	}
	catches(t, exportsNoInternalTypes, []violation{
		{"an alias", of("type Future = other.Future"), "Future mentions other.Future"},
		{"a defined type", of("type Future other.Future"), "Future mentions other.Future"},
		{"an embedded field", of("type Joining struct{ join.Event }"), "mentions join.Event"},
		{"a field", of("type Claim struct{ Of []*join.Gate; x int }"), "mentions join.Gate"},
		{"a parameter", of("func Open(x map[string]join.Config) {}"), "Open mentions join.Config"},
		{"a result of a method", of("type T int\nfunc (T) Stats() *join.Stats { return nil }"), "Stats mentions join.Stats"},
		{"a variable", of("var X join.Event"), "X mentions join.Event"},
		{"a constant", of("const Here = other.Here"), "Here mentions other.Here"},
		{"a method for packages above the root", `
-- extension.go --
package squall
import "github.com/squall-go/squall/internal/extension"
func (s *Subgroup) Extension(extension.Key) extension.Subgroup { return nil }
`, ""},
		{"what no user sees", of(`
type Claim struct{ of join.Gate }
type hidden struct{ join.Event }
func (hidden) Exported() join.Event { return nil }
func open(join.Config) join.Event { return nil }
const Here = Stage(other.Here)
var ErrClosed = other.ErrClosed
type Stage int`), ""},
	})
}
