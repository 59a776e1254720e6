package cdr_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/dds/cdr"
)

type Level uint8

func (Level) EnumLiterals() []cdr.Literal {
	return []cdr.Literal{{"LOW", 0}, {"MIDDLE", 5}, {"HIGH", 9}}
}

type Choice struct {
	Level Level    `dds:"switch"`
	Short int16    `dds:"case=0|9"`
	Other string   `dds:"default,bound=5"`
	_     struct{} `dds:"union,name=Fleet::Choice"`
}

type Vehicle struct {
	Serial  int32    `dds:"key"`
	Struct  string   `dds:"id=7,bound=20"`
	Speed   *float32 `dds:"optional"`
	Grid    [2][3]int16
	Track   []Inner `dds:"bound=100"`
	Names   []string
	Pick    Choice
	Flags   Flags
	Initial uint8 `dds:"char"`
	Big     uint64
	_       struct{} `dds:"appendable,name=Fleet::Sub::Vehicle"`
}

const vehicleIDL = `@final
struct Inner {
  short a;
  double b;
};

@bit_bound(8)
enum Level {
  @value(0) LOW,
  @value(5) MIDDLE,
  @value(9) HIGH
};

module Fleet {
@final
union Choice switch (Level) {
  case LOW:
  case HIGH:
    short _short;
  default:
    string<5> other;
};
};

@bit_bound(8)
bitmask Flags {
  @position(0) fA,
  @position(3) fB
};

module Fleet {
module Sub {
@appendable
struct Vehicle {
  @key long serial;
  @id(7) string<20> _struct;
  @optional float speed;
  short grid[2][3];
  sequence<Inner, 100> track;
  sequence<string> names;
  Fleet::Choice pick;
  Flags flags;
  char initial;
  unsigned long long big;
};
};
};
`

func TestIDLDeclaresEachTypeBeforeItsUse(t *testing.T) {
	got, err := cdr.IDL[Vehicle]()
	if err != nil || got != vehicleIDL {
		t.Errorf("%v\n%s\nand not\n%s", err, got, vehicleIDL)
	}
}

func TestNamesOfIDLAreOfOneType(t *testing.T) {
	type Inner struct{ X int32 }
	type Both struct {
		A Inner
		B Everything
	}
	if _, err := cdr.IDL[Both](); !errors.Is(err, cdr.ErrType) {
		t.Error(err)
	}
}

// A compiler of IDL accepts what IDL returns, of the types whose bytes are compared with those of
// CycloneDDS.
func TestIDLIsAcceptedByCycloneDDS(t *testing.T) {
	compiler, err := exec.LookPath("idlc")
	if err != nil {
		t.Skip("idlc of CycloneDDS is not installed (Debian: cyclonedds-tools)")
	}
	accepted(t, compiler, cdr.IDL[Vehicle])
	accepted(t, compiler, cdr.IDL[Scalars])
	accepted(t, compiler, cdr.IDL[NestedX1])
	accepted(t, compiler, cdr.IDL[NestedX2])
	accepted(t, compiler, cdr.IDL[Opt])
	accepted(t, compiler, cdr.IDL[App])
	accepted(t, compiler, cdr.IDL[Mut])
	accepted(t, compiler, cdr.IDL[KeyNest])
	accepted(t, compiler, cdr.IDL[KeyMut])
}

func accepted(t *testing.T, compiler string, idl func() (string, error)) {
	t.Helper()
	text, err := idl()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "types.idl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(compiler, file)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, strings.TrimSpace(string(out)), text)
	}
}
