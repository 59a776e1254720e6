package cdr_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/squall-go/squall/dds/cdr"
)

// The types of testdata/golden.idl, and the samples of testdata/golden.c.

type Color int32

const (
	Red Color = iota
	Green
	Blue
)

func (Color) EnumLiterals() []cdr.Literal {
	return []cdr.Literal{{"RED", 0}, {"GREEN", 1}, {"BLUE", 2}}
}

type Flags uint8

func (Flags) BitmaskFlags() []cdr.Literal { return []cdr.Literal{{"fA", 0}, {"fB", 3}} }

type Inner struct {
	A int16
	B float64
}

type AInner struct {
	A uint8
	S string
	_ struct{} `dds:"appendable"`
}

type MInner struct {
	A uint8
	S string   `dds:"id=9"`
	_ struct{} `dds:"mutable"`
}

type Scalars struct {
	B   bool
	O   uint8
	C   uint8 `dds:"char"`
	S   int16
	US  uint16
	L   int32
	UL  uint32
	LL  int64
	ULL uint64
	F   float32
	D   float64
	Str string
}

type U struct {
	Disc int32    `dds:"switch"`
	A    int32    `dds:"case=1"`
	S    string   `dds:"case=2"`
	D    float64  `dds:"default"`
	_    struct{} `dds:"union"`
}

type AU struct {
	Disc uint8    `dds:"switch"`
	A    int32    `dds:"case=1"`
	S    string   `dds:"case=2"`
	_    struct{} `dds:"union,appendable"`
}

type NestedX1 struct {
	X      uint8
	Inn    Inner
	Inners []Inner
	Arr    [3]int32
	Bytes  [5]uint8
	Raw    []byte
	Names  []string
	Colr   Color
	Y      uint8
	Colors []Color
	Bnd    string    `dds:"bound=10"`
	Ds     []float64 `dds:"bound=4"`
	Grid   [2][2]int32
	IA     [2]Inner
	UU     U
	Flg    Flags
	Fs     []Flags
	Ca     [2]Color
}

type NestedX2 struct {
	X   uint8
	AI  AInner
	MI  MInner
	AU  AU
	AIs []AInner
	MIs []MInner
	Z   uint8
}

type Opt struct {
	X    uint8
	L    *int32
	S    *string
	I    *Inner
	None *float64
	Y    uint8
}

type App struct {
	X   uint8
	D   float64
	S   string
	AI  AInner
	AIs []AInner
	Z   uint8
	_   struct{} `dds:"appendable"`
}

type Mut struct {
	X      uint8   `dds:"id=5"`
	D      float64 `dds:"id=1"`
	S      string  `dds:"id=40"`
	None   *int32  `dds:"id=7"`
	Sh     int16   `dds:"id=8"`
	Ls     []int32
	Os     []byte
	Inn    Inner
	Ds     []float64
	AI     AInner
	C      Color
	UU     U
	Arr    [3]int32
	Names  []string
	Inners []Inner
	Mu     int32 `dds:"must"`
	MI     MInner
	AU     AU
	Cs     []Color
	AIs    []AInner
	OA     [3]uint8
	DA     [2]float64
	_      struct{} `dds:"mutable"`
}

type KeyLong struct {
	K int32 `dds:"key"`
	S string
}

type KeyStr struct {
	X uint8
	K string `dds:"key"`
	V int32
}

type KInner struct {
	A int32
	B int16 `dds:"key"`
}

type KAll struct {
	A uint8
	B int32
}

type KeyNest struct {
	V   int32
	I   KInner `dds:"key"`
	All KAll   `dds:"key"`
	O   uint8  `dds:"key"`
}

type KeyApp struct {
	S string
	A uint8    `dds:"key"`
	B int64    `dds:"key"`
	_ struct{} `dds:"appendable"`
}

type KeyMut struct {
	A uint8    `dds:"id=9,key"`
	B int32    `dds:"id=3,key"`
	S string   `dds:"id=1"`
	_ struct{} `dds:"mutable"`
}

type KeyWide struct {
	A int64 `dds:"key"`
	B uint8 `dds:"key"`
	C int64 `dds:"key"`
}

type KeyedSeq struct {
	Seq     uint32
	Keyval  uint32 `dds:"key"`
	Baggage []byte
}

var (
	scalars  = Scalars{true, 0xfe, 'x', -2, 65000, -70000, 4000000000, -5000000000, 0xfedcba9876543210, 1.5, -2.25, "hello"}
	nestedX1 = NestedX1{
		X: 1, Inn: Inner{-3, 2.5}, Inners: []Inner{{1, 1.5}, {2, 2.5}}, Arr: [3]int32{7, 8, 9}, Bytes: [5]uint8{1, 2, 3, 4, 5},
		Raw: []byte{10, 11, 12}, Names: []string{"a", "", "ccc"}, Colr: Blue, Y: 9, Colors: []Color{Green, Red}, Bnd: "bounded",
		Ds: []float64{0.5, 0.25}, Grid: [2][2]int32{{1, 2}, {3, 4}}, IA: [2]Inner{{5, 5.5}, {6, 6.5}}, UU: U{Disc: 2, S: "union"},
		Flg: 9, Fs: []Flags{1, 8}, Ca: [2]Color{Green, Blue},
	}
	nestedX2 = NestedX2{
		X: 1, AI: AInner{A: 2, S: "two"}, MI: MInner{A: 3, S: "three"}, AU: AU{Disc: 1, A: 77},
		AIs: []AInner{{A: 4, S: "x"}, {A: 5, S: "yy"}}, MIs: []MInner{{A: 6, S: "z"}}, Z: 8,
	}
	opt = Opt{X: 1, L: new(int32(42)), S: new("opt"), I: &Inner{4, 4.5}, Y: 2}
	app = App{X: 1, D: 2.5, S: "app", AI: AInner{A: 3, S: "in"}, AIs: []AInner{{A: 4, S: "e"}}, Z: 5}
	mut = Mut{
		X: 1, D: 2.5, S: "mut", Sh: -4, Ls: []int32{1, 2, 3}, Os: []byte{1, 2, 3}, Inn: Inner{5, 5.5}, Ds: []float64{1.5, 2.5},
		AI: AInner{A: 6, S: "six"}, C: Blue, UU: U{Disc: 9, D: 3.5}, Arr: [3]int32{7, 8, 9}, Names: []string{"n1", "n22"},
		Inners: []Inner{{1, 1.5}}, Mu: 19, MI: MInner{A: 20, S: "mi"}, AU: AU{Disc: 2, S: "au"}, Cs: []Color{Green, Blue},
		AIs: []AInner{{A: 1, S: "q"}}, OA: [3]uint8{1, 2, 3}, DA: [2]float64{1.25, 2.25},
	}
)

// golden are the lines of one type in testdata/golden.txt and testdata/shapes.txt.
func golden(t *testing.T, name string) map[string][]byte {
	t.Helper()
	lines := map[string][]byte{}
	for _, file := range []string{"testdata/golden.txt", "testdata/shapes.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) == 3 && words[0] == name {
				if lines[words[1]], err = hex.DecodeString(words[2]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if len(lines) == 0 {
		t.Fatalf("no file in testdata has a line of %s", name)
	}
	return lines
}

var formats = map[string]cdr.Format{"x1le": cdr.XCDR1, "x1be": cdr.XCDR1 | cdr.BigEndian, "x2le": cdr.XCDR2, "x2be": cdr.XCDR2 | cdr.BigEndian}

func codec[T any](t testing.TB) *cdr.Codec[T] {
	t.Helper()
	c, err := cdr.New[T]()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// same checks that a value has the bytes of CycloneDDS, and that they are the value.
func same[T any](t *testing.T, v T) {
	t.Run(reflect.TypeFor[T]().Name(), func(t *testing.T) {
		c := codec[T](t)
		for what, want := range golden(t, reflect.TypeFor[T]().Name()) {
			var got []byte
			var err error
			var back T
			version := cdr.XCDR1
			if strings.HasSuffix(what, "2") {
				version = cdr.XCDR2
			}
			switch f, body := formats[what]; {
			case body:
				if got, err = c.AppendBody(nil, &v, f); err == nil {
					err = c.DecodeBody(want, &back, f)
				}
			case strings.HasPrefix(what, "payload"):
				if got, err = c.Append(nil, &v, version); err == nil {
					err = c.Decode(want, &back)
				}
			case strings.HasPrefix(what, "key"):
				sameKey(t, c, &v, what, want)
				continue
			default:
				sameHash(t, c, &v, what, want, version)
				continue
			}
			switch {
			case err != nil:
				t.Errorf("%s: %v", what, err)
			case !bytes.Equal(got, want):
				t.Errorf("%s is\n%x, and of CycloneDDS\n%x", what, got, want)
			case !reflect.DeepEqual(back, v):
				t.Errorf("%s decodes to %+v", what, back)
			}
		}
	})
}

// sameKey leaves padding out of the comparison: CycloneDDS adds none to a key.
func sameKey[T any](t *testing.T, c *cdr.Codec[T], v *T, what string, want []byte) {
	var back T
	got, err := c.AppendKey(nil, v, cdr.XCDR2) // CycloneDDS writes keys in XCDR2, whatever the samples are in
	if err != nil {
		t.Fatal(err)
	}
	if got = got[:len(got)-int(got[3])]; !bytes.Equal(got[4:], want[4:len(want)-int(want[3])]) || !bytes.Equal(got[:2], want[:2]) {
		t.Errorf("%s is\n%x, and of CycloneDDS\n%x", what, got, want)
	}
	if err := c.DecodeKey(want, &back); err != nil {
		t.Fatal(err)
	}
	again, err := c.AppendKey(nil, &back, cdr.XCDR2)
	if err != nil || !bytes.Equal(again[4:len(again)-int(again[3])], want[4:len(want)-int(want[3])]) {
		t.Errorf("%s decodes to %+v (%v)", what, back, err)
	}
}

// sameHash compares with the digest where the type has keys of more than 16 bytes, as the
// specification of RTPS wants it: CycloneDDS returns a short key as it is even then, if it is not
// told otherwise.
func sameHash[T any](t *testing.T, c *cdr.Codec[T], v *T, what string, want []byte, version cdr.Format) {
	digest := strings.HasPrefix(what, "md5")
	switch any(*v).(type) {
	case KeyStr, KeyWide, Keys, KeyDeep:
		if !digest {
			return
		}
	default:
		if digest {
			return
		}
	}
	if hash, err := c.KeyHash(v, version); err != nil || !bytes.Equal(hash[:], want) {
		t.Errorf("%s is %x (%v), and of CycloneDDS %x", what, hash, err, want)
	}
}

func TestValuesHaveTheBytesOfCycloneDDS(t *testing.T) {
	same(t, scalars)
	same(t, nestedX1)
	same(t, nestedX2)
	same(t, opt)
	same(t, app)
	same(t, mut)
	same(t, KeyLong{0x01020304, "v"})
	same(t, KeyStr{1, "key", 2})
	same(t, KeyNest{1, KInner{2, 3}, KAll{4, 5}, 6})
	same(t, KeyApp{S: "s", A: 1, B: 0x0102030405060708})
	same(t, KeyMut{A: 1, B: 2, S: "s"})
	same(t, KeyWide{1, 2, 3})
	same(t, KeyedSeq{1, 2, []byte{1, 2, 3, 4, 5, 6, 7}})
}
