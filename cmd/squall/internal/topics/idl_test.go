package topics

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const positionIDL = `@final
struct Point {
  double x;
  double y;
};

module Fleet {
@appendable
struct Position {
  @key long vehicle;
  sequence<Point, 100> path;
  @optional string remark;
};
};
`

const noteIDL = `@final
struct note {
  @key unsigned long long id;
  string<80> text;
};
`

// Types of packages are printed, also of a program, and without running the package's own tests.
func TestTheIDLOfATypeIsPrinted(t *testing.T) {
	t.Parallel()
	out, err := run(t, "", "idl", "./testdata/fleet", "Position")
	if err != nil || out != positionIDL {
		t.Errorf("%v\n%s\nand not\n%s", err, out, positionIDL)
	}
	accepted(t, out)
	out, err = run(t, "", "idl", "./testdata/program", "note", "--json")
	var d Declared
	if err != nil || json.Unmarshal([]byte(out), &d) != nil || d.Name != "note" || !strings.HasSuffix(d.Package, "topics/testdata/program") || d.IDL != noteIDL {
		t.Errorf("%v\n%s\nand not\n%s", err, out, noteIDL)
	}
	if out, err = run(t, "", "idl", "./testdata/fleet", "Pair[int16]"); err != nil || !strings.Contains(out, "short a;") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, dir := range []string{"fleet", "program"} {
		if all, err := filepath.Glob("testdata/" + dir + "/squall*"); err != nil || len(all) > 0 {
			t.Errorf("files are left: %v, %v", all, err)
		}
	}
}

func TestWhyATypeHasNoIDLIsTold(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"./testdata/fleet Positon": "has no type Positon",
		"./testdata/fleet Odd":     "int",
		"./testdata/none Position": "testdata/none",
		"./... Position":           "not one package",
		"-x Position":              "not one package",
		"./testdata/fleet 1+1":     "not the name of a type",
		"./testdata/fleet os.File": "not the name of a type",
	} {
		pattern, name, _ := strings.Cut(args, " ")
		if _, err := run(t, "", "idl", "--", pattern, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// accepted has a compiler of IDL read a text, if there is one.
func accepted(t *testing.T, text string) {
	t.Helper()
	compiler, err := exec.LookPath("idlc")
	if err != nil {
		t.Log("idlc of CycloneDDS is not installed (Debian: cyclonedds-tools), and did not look at it")
		return
	}
	dir := t.TempDir()
	fatal(t, os.WriteFile(filepath.Join(dir, "types.idl"), []byte(text), 0o600))
	cmd := exec.Command(compiler, "types.idl")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, text)
	}
}
