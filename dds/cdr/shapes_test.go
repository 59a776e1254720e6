package cdr_test

import (
	"testing"

	"github.com/squall-go/squall/dds/cdr"
)

// The types of testdata/shapes.idl, and the samples of testdata/shapes.c.

type BM16 uint16

func (BM16) BitmaskFlags() []cdr.Literal { return []cdr.Literal{{"fa", 0}, {"fb", 15}} }

type BM32 uint32

func (BM32) BitmaskFlags() []cdr.Literal { return []cdr.Literal{{"fc", 31}} }

type BM64 uint64

func (BM64) BitmaskFlags() []cdr.Literal { return []cdr.Literal{{"fd", 63}} }

type EN8 int8

func (EN8) EnumLiterals() []cdr.Literal { return []cdr.Literal{{"E8A", 0}, {"E8B", 1}} }

type EN16 int16

func (EN16) EnumLiterals() []cdr.Literal { return []cdr.Literal{{"E16A", 0}, {"E16B", 1}} }

type ENV int32

func (ENV) EnumLiterals() []cdr.Literal { return []cdr.Literal{{"EV3", 3}, {"EV10", 10}} }

type PT struct {
	A int16
	B float64
}

type APT struct {
	A uint8
	S *string
	_ struct{} `dds:"appendable"`
}

type MPT struct {
	A uint8 `dds:"id=1"`
	S *string
	D *float64
	Q *[]int32
	P *PT
	_ struct{} `dds:"mutable"`
}

type UNE struct {
	D     ENV      `dds:"switch"`
	Names []string `dds:"case=3"`
	P     PT       `dds:"case=10"`
	_     struct{} `dds:"union"`
}

type UNB struct {
	D  bool     `dds:"switch"`
	O  uint8    `dds:"case=1"`
	LL int64    `dds:"case=0"`
	_  struct{} `dds:"union"`
}

type UNC struct {
	D uint8    `dds:"switch,char"`
	L int32    `dds:"case=97"`
	S string   `dds:"default"`
	_ struct{} `dds:"union"`
}

type Seqs struct {
	Ss   [][]byte
	Sst  [][]string
	As   [2][]int32
	Ast  [2]string
	Sb   []bool
	Sd   []float64
	Cube [2][3][2]int32
	Saps []APT
	Tail uint8
}

type Masks struct {
	X    uint8
	F16  BM16
	Y    uint8
	F32  BM32
	Z    uint8
	F64  BM64
	S16  []BM16
	Af   [2]BM64
	E8   EN8
	E16  EN16
	Ev   ENV
	Se8  []EN8
	Ae16 [3]EN16
	W    uint8
}

type Unions struct {
	X   uint8
	Ue  UNE
	Uf  UNE
	Ub  UNB
	Uc  UNB
	Ud  UNC
	Ug  UNC
	Sue []UNE
	Auc [2]UNC
	Y   uint8
}

type Opts struct {
	X  uint8
	Ap *APT
	Mp *MPT
	Sd *[]float64
	Ev *ENV
	F  *BM64
	LL *int64
	Y  uint8
}

type Muts struct {
	O     *uint8 `dds:"id=1"`
	S     *int16
	L     *int32
	D     *float64
	Str   *string
	Q     *[]byte
	Qd    *[]float64
	Mp    *MPT
	Smp   *[]MPT
	F     BM64
	Names *[]string
	E8    EN8
	Sl    *[][]int32
	Se    *[]EN16
	Sf    []BM16
	Ue    UNE
	Bs    []bool
	Sa    [3]int16
	B     bool
	F16   BM16
	Ff    [2]float32
	_     struct{} `dds:"mutable"`
}

type Keys struct {
	Ev ENV      `dds:"key"`
	B  bool     `dds:"key"`
	S  string   `dds:"key,bound=8"`
	A  [3]uint8 `dds:"key"`
	V  int32
	_  struct{} `dds:"appendable"`
}

type KeyInner struct {
	Name string `dds:"key"`
	V    int32
}

type KeyDeep struct {
	I KeyInner `dds:"key"`
	L int64    `dds:"key"`
	S string
	P PT `dds:"key"`
}

func TestValuesOfEachShapeHaveTheBytesOfCycloneDDS(t *testing.T) {
	mp, mq := MPT{A: 1, S: new("mp"), D: new(0.125), Q: &[]int32{11, 12}, P: &PT{3, 3.5}}, MPT{A: 2}
	ue, uf := UNE{D: 3, Names: []string{"n", ""}}, UNE{D: 10, P: PT{-1, 4.5}}
	cube := [2][3][2]int32{}
	for i := range 12 {
		cube[i/6][i/2%3][i%2] = int32(i*1000 - 3)
	}
	same(t, Seqs{Ss: [][]byte{{1, 2, 3}, nil, {1, 2, 3}}, Sst: [][]string{nil, {"a", ""}}, As: [2][]int32{nil, {1, -2, 3}}, Ast: [2]string{"", "array"}, Sb: []bool{true, false, true}, Sd: []float64{2.5}, Cube: cube, Saps: []APT{{A: 1}, {A: 2, S: new("two")}}, Tail: 9})
	same(t, Masks{X: 1, F16: 0x8001, Y: 2, F32: 1 << 31, Z: 3, F64: 1 << 63, S16: []BM16{1, 0x8000}, Af: [2]BM64{1 << 63, 0}, E8: 1, E16: 1, Ev: 10, Se8: []EN8{0, 1}, Ae16: [3]EN16{1, 0, 1}, W: 4})
	same(t, Unions{X: 1, Ue: ue, Uf: uf, Ub: UNB{D: true, O: 7}, Uc: UNB{LL: -8}, Ud: UNC{D: 'a', L: 5}, Ug: UNC{D: 'z', S: "zed"}, Sue: []UNE{uf, ue}, Auc: [2]UNC{{D: 'z', S: "zed"}, {D: 'a', L: 5}}, Y: 2})
	same(t, Opts{X: 1, Ap: &APT{A: 5, S: new("ap")}, Mp: &mp, Sd: &[]float64{1.5, 2.5}, Ev: new(ENV(10)), F: new(BM64(1 << 63)), LL: new(int64(-9)), Y: 2})
	same(t, Muts{O: new(uint8(1)), S: new(int16(-2)), L: new(int32(3)), D: new(4.5), Str: new("str"), Q: &[]byte{7, 8, 9}, Qd: &[]float64{1.5, 2.5}, Mp: &mp, Smp: &[]MPT{mp, mq}, F: 1 << 63, Names: &[]string{"n", ""}, E8: 1, Sl: &[][]int32{{1, 2}, nil}, Se: &[]EN16{1, 0}, Sf: []BM16{1, 0x8000, 0}, Ue: ue, Bs: []bool{true, false}, Sa: [3]int16{1, 2, 3}, B: true, F16: 0x8000, Ff: [2]float32{1.5, 2.5}})
	same(t, Keys{Ev: 3, B: true, S: "keykey", A: [3]uint8{1, 2, 3}, V: 4})
	same(t, KeyDeep{I: KeyInner{"inner", 1}, L: -2, S: "s", P: PT{3, 4.5}})
}
