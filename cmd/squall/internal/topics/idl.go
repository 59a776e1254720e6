package topics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// Declared is what "squall dds idl --json" prints.
type Declared struct {
	Package string `json:"package"`
	Go      string `json:"go"`   // the type in the package
	Name    string `json:"name"` // … and in IDL
	IDL     string `json:"idl"`
}

func newIDLCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "idl PACKAGE TYPE [flags]",
		Short: "Print the IDL of a Go type, for programs in other languages",
		Long: `Idl prints the type TYPE of the Go package PACKAGE in OMG IDL 4.2, with all types that it is made of: what cdr.IDL returns in a program. Compilers of IDL,
such as idlc of CycloneDDS, make types for other languages of it, whose samples a topic with the codec dds.XCDR understands.

PACKAGE is what go build takes: a directory like ./fleet, or an import path of the module of the current directory, which has to require
github.com/squall-go/squall. The package is compiled and loaded by the go command; nothing is written next to it. It may be a program, and TYPE need not be exported.`,
		Example: `  squall dds idl ./fleet Position > position.idl
  squall dds idl example.com/fleet/types Position --json | jq -r .name
  squall dds record positions flight.mcap --join 127.0.0.1:7001 --idl positions=position.idl`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := declare(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), d)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), d.IDL)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// A test of the package is the way to a type that works for programs, for types that are not
// exported, and for internal packages. The overlay adds it to the package, without the package's
// own tests.
const (
	idlFile = "squall_dds_idl_test.go"
	idlTest = `package %s

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/squall-go/squall/dds/cdr"
)

func TestSquallDDSIDL(t *testing.T) {
	var answer struct{ Name, IDL, Error string }
	text, err := cdr.IDL[%s]()
	if err == nil {
		var c *cdr.Codec[%[2]s]
		if c, err = cdr.New[%[2]s](); err == nil {
			answer.Name, answer.IDL = c.TypeName(), text
		}
	}
	if err != nil {
		answer.Error = err.Error()
	}
	b, err := json.Marshal(answer)
	if err == nil {
		err = os.WriteFile(os.Getenv("SQUALL_DDS_IDL"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
`
)

// declare has the go command load a package, and returns the IDL of a type.
func declare(ctx context.Context, pattern, name string) (*Declared, error) {
	if strings.HasPrefix(pattern, "-") || strings.Contains(pattern, "...") {
		return nil, fmt.Errorf("%q is not one package", pattern)
	}
	if !isType(name) {
		return nil, fmt.Errorf("%q is not the name of a type in its package", name)
	}
	var p idlPackage
	out, err := goCommand(ctx, nil, "list", "-json=Dir,ImportPath,Name,TestGoFiles,XTestGoFiles", pattern)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(out))
	if err := d.Decode(&p); err != nil || d.More() {
		return nil, errors.Join(fmt.Errorf("%q is not one package", pattern), err)
	}
	return p.declare(ctx, name)
}

// idlPackage is what "go list" says about a package.
type idlPackage struct {
	Dir, ImportPath, Name     string
	TestGoFiles, XTestGoFiles []string
}

// declare runs a test in the package, in place of its own, which prints the declaration of a type.
func (p *idlPackage) declare(ctx context.Context, name string) (*Declared, error) {
	dir, err := os.MkdirTemp("", "squall-dds-idl-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	test, overlay, answer := filepath.Join(dir, idlFile), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "answer.json")
	text, err := json.Marshal(map[string]any{"Replace": p.replaced(test)})
	if err == nil {
		err = errors.Join(os.WriteFile(test, fmt.Appendf(nil, idlTest, p.Name, name), 0o600), os.WriteFile(overlay, text, 0o600))
	}
	if err != nil {
		return nil, err
	}
	_, err = goCommand(ctx, []string{"SQUALL_DDS_IDL=" + answer}, "test", "-count=1", "-vet=off", "-run=^TestSquallDDSIDL$", "-overlay="+overlay, p.ImportPath)
	if err != nil {
		if undefined.MatchString(err.Error()) {
			return nil, fmt.Errorf("package %s has no type %s", p.ImportPath, name)
		}
		return nil, err
	}
	b, err := os.ReadFile(answer)
	if err != nil {
		return nil, fmt.Errorf("package %s was not loaded: %w", p.ImportPath, err)
	}
	var a struct{ Name, IDL, Error string }
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, err
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return &Declared{Package: p.ImportPath, Go: name, Name: a.Name, IDL: a.IDL}, nil
}

// replaced are the files that others replace: the package's own tests by none.
func (p *idlPackage) replaced(test string) map[string]string {
	all := map[string]string{filepath.Join(p.Dir, idlFile): test}
	for _, f := range append(p.TestGoFiles, p.XTestGoFiles...) {
		all[filepath.Join(p.Dir, f)] = ""
	}
	return all
}

// undefined is what the compiler says of the name in the test.
var undefined = regexp.MustCompile(regexp.QuoteMeta(idlFile) + `:\d+:\d+: (undefined: |.* is not a type)`)

// isType reports whether a text names a type of its package, perhaps with arguments.
func isType(name string) bool {
	e, err := parser.ParseExpr(name)
	if err != nil {
		return false
	}
	switch e := e.(type) {
	case *ast.Ident:
		return true
	case *ast.IndexExpr:
		_, ok := e.X.(*ast.Ident)
		return ok
	case *ast.IndexListExpr:
		_, ok := e.X.(*ast.Ident)
		return ok
	}
	return false
}

// goCommand runs the go command, and returns what it prints. Its error has what it says.
func goCommand(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	switch {
	case err == nil:
		return out.Bytes(), nil
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("the go command is not installed, which knows the types of Go packages: %w", err)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("go %s: %w\n%s%s", args[0], err, errs.Bytes(), out.Bytes())
}
