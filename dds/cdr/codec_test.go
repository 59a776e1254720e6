package cdr_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/cdr"
)

// Everything has a member of every kind, for round trips in formats of which CycloneDDS has not
// all.
type Everything struct {
	Bool    bool
	I8      int8
	U8      uint8 `dds:"key"`
	I16     int16
	U16     uint16
	I32     int32
	U32     uint32
	I64     int64
	U64     uint64
	F32     float32
	F64     float64
	Text    string
	Bools   []bool
	Shorts  []int16
	Longs   []uint32
	Doubles []float64
	Texts   []string
	Lists   [][]int16
	Array   [3]Inner
	Names   map[string]int32
	Table   map[uint16][]string
	Maybe   *int64
	Deep    *Everything
	Open    []App
	Any     []Mut
	UU      U
	AU      AU
}

type EverythingAppendable struct {
	E Everything
	L []Everything
	_ struct{} `dds:"appendable"`
}

type Wide struct {
	A Everything
	B *Wide
	C map[int8]int8
	D EverythingAppendable `dds:"id=0x3f02"`
	F *string              `dds:"id=0x3f01"`
	G *string              `dds:"id=77"`
	E []int16              `dds:"id=0xfffffff"`
	_ struct{}             `dds:"mutable"`
}

// The bytes of mutable types and optional members in XCDR1, which CycloneDDS 0.10 does not write,
// are put together by hand after DDS-XTypes 1.3, 7.4.1.2: parameter headers of an id and a length,
// and an end marker.
func TestMembersOfXCDR1AreParameters(t *testing.T) {
	type Parameters struct {
		X uint8
		D float64  `dds:"id=5,must"`
		S *string  `dds:"id=0x4000"`
		N *int32   `dds:"id=7"`
		_ struct{} `dds:"mutable"`
	}
	type Options struct {
		X uint8
		D *float64
		N *int32
		Y uint8
	}
	for _, c := range []struct {
		v    any
		f    cdr.Format
		want string
	}{
		{&Parameters{X: 1, D: 2, S: new("ab")}, cdr.XCDR1, "0000 0100 01 000000" +
			"0540 0800 0000000000000040" +
			"017f 0800 00400000 07000000 03000000616200 00" + "023f 0000"},
		{&Parameters{X: 1, D: 2}, cdr.XCDR1 | cdr.BigEndian, "0000 0001 01 000000" +
			"4005 0008 4000000000000000" + "3f02 0000"},
		{&Options{X: 1, D: new(2.0), Y: 9}, cdr.XCDR1, "01 000000 0100 0800 0000000000000040 0200 0000 09"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		switch v := c.v.(type) {
		case *Parameters:
			sameBody(t, v, c.f, want)
		case *Options:
			sameBody(t, v, c.f, want)
		}
	}
}

func sameBody[T any](t *testing.T, v *T, f cdr.Format, want []byte) {
	t.Helper()
	c := codec[T](t)
	got, err := c.AppendBody(nil, v, f)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%+v in %v is\n%x (%v), not\n%x", *v, f, got, err, want)
	}
	var back T
	if err := c.DecodeBody(want, &back, f); err != nil || !reflect.DeepEqual(back, *v) {
		t.Errorf("%x decodes to %+v (%v)", want, back, err)
	}
}

func TestALongMemberOfXCDR1HasALongHeader(t *testing.T) {
	type Long struct {
		Short uint8
		Text  string
		After float64
		_     struct{} `dds:"mutable"`
	}
	c := codec[Long](t)
	for _, n := range []int{math.MaxUint16 - 5, math.MaxUint16 - 4, 1 << 20} {
		v := Long{Short: 1, Text: strings.Repeat("x", n), After: 2}
		b, err := c.Append(nil, &v, cdr.XCDR1)
		if err != nil {
			t.Fatal(err)
		}
		var back Long
		if err := c.Decode(b, &back); err != nil || back != v {
			t.Errorf("a string of %d bytes: %v", n, err)
		}
		if short := b[12] == 1 && b[13] == 0; short != (4+n+1 <= math.MaxUint16) { // the id 1, or that of a long header
			t.Errorf("a string of %d bytes has the header %x", n, b[12:24])
		}
	}
}

func reread[W, R any](t *testing.T, w W, r *R, f cdr.Format) {
	t.Helper()
	b, err := codec[W](t).Append(nil, &w, f)
	if err == nil {
		err = codec[R](t).Decode(b, r)
	}
	if err != nil {
		t.Fatalf("%v: %v", f, err)
	}
}

func TestTypesWithoutAnEncodingAreRefused(t *testing.T) {
	refused := func(what string, err error) {
		if !errors.Is(err, cdr.ErrType) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := cdr.New[int32]()
	refused("no struct", err)
	_, err = cdr.New[struct{ A int32 }]()
	refused("without a name", err)
	type (
		number   struct{ A int }
		inter    struct{ A any }
		channel  struct{ A []chan int }
		moment   struct{ A time.Time }
		hidden   struct{ a int32 }
		embedded struct{ Inner }
		empty    struct{ A [0]int32 }
		none     struct{}
		pointers struct{ A []*int32 }
		floats   struct{ A map[float64]int32 }
		option   struct {
			A int32 `dds:"kee"`
		}
		ids struct {
			A int32 `dds:"id=1"`
			B int32 `dds:"id=1"`
		}
		optionalKey struct {
			A *int32 `dds:"key"`
		}
		sequenceKey struct {
			A []int32 `dds:"key"`
		}
		must struct {
			A int32 `dds:"must"`
		}
		stray struct {
			A int32 `dds:"case=1"`
		}
		bound struct {
			A int32 `dds:"bound=1"`
		}
		optional struct {
			A int32 `dds:"optional"`
		}
	)
	_ = hidden{}.a
	refused("int", compiled[number]())
	refused("interface", compiled[inter]())
	refused("channel", compiled[channel]())
	refused("time", compiled[moment]())
	refused("unexported", compiled[hidden]())
	refused("embedded", compiled[embedded]())
	refused("empty array", compiled[empty]())
	refused("no members", compiled[none]())
	refused("pointer in a sequence", compiled[pointers]())
	refused("map with keys of floats", compiled[floats]())
	refused("unknown option", compiled[option]())
	refused("an id twice", compiled[ids]())
	refused("an optional key", compiled[optionalKey]())
	_, err = cdr.New[sequenceKey]()
	refused("a sequence as key", err)
	refused("a case outside of a union", compiled[stray]())
	refused("must in a final type", compiled[must]())
	refused("a bound of a number", compiled[bound]())
	refused("optional without a pointer", compiled[optional]())
	type twice struct {
		D int32    `dds:"switch"`
		A int32    `dds:"case=1"`
		B int32    `dds:"case=1"`
		_ struct{} `dds:"union"`
	}
	refused("a case twice", compiled[struct{ A twice }]())
	type float struct {
		D float32
		A int32    `dds:"case=1"`
		_ struct{} `dds:"union"`
	}
	refused("a union over a float", compiled[struct{ A float }]())
	type beyond struct {
		A int32 `dds:"id=0xfffffff"`
		B int32
	}
	refused("an id of 29 bits", compiled[beyond]())
	type mutable struct {
		D int32
		A int32    `dds:"case=1"`
		_ struct{} `dds:"union,mutable"`
	}
	refused("a mutable union", compiled[struct{ A mutable }]())
}

// compiled says what New says of a type with a member of type T. Of a T without a name the fields
// are looked at as those of its own type.
func compiled[T any]() error {
	type Named struct {
		Value T `dds:"name=value"`
	}
	_, err := cdr.New[Named]()
	return err
}

func TestNestingIsBounded(t *testing.T) {
	type Chain struct{ Next *Chain }
	c := codec[Chain](t)
	for n, ok := range map[int]bool{1: true, 64: true, 65: false, 1000: false} {
		v := Chain{}
		for range n - 1 {
			v = Chain{&Chain{v.Next}}
		}
		want := append(bytes.Repeat([]byte{1}, n-1), 0)
		if got, err := c.AppendBody(nil, &v, cdr.XCDR2); (err == nil && bytes.Equal(got, want)) != ok || !ok && !errors.Is(err, cdr.ErrValue) {
			t.Errorf("%d structs: %x, %v", n, got, err)
		}
		if err := c.DecodeBody(want, new(Chain), cdr.XCDR2); (err == nil) != ok || !ok && !errors.Is(err, cdr.ErrMalformed) {
			t.Errorf("%x: %v", want, err)
		}
	}
	ring := Chain{}
	ring.Next = &ring
	if _, err := c.Append(nil, &ring, cdr.XCDR1); !errors.Is(err, cdr.ErrValue) {
		t.Errorf("a ring: %v", err)
	}
}

// A hash of 16 bytes has the key itself if no key of the type is larger.
func TestAKeyThatIsLargerThanAHashIsNotReadFromIt(t *testing.T) {
	type Key16 struct {
		K [16]uint8 `dds:"key"`
	}
	type Key17 struct {
		K [17]uint8 `dds:"key"`
	}
	for _, c := range []struct {
		of   reflect.Type
		want error
	}{{reflect.TypeFor[Key16](), nil}, {reflect.TypeFor[Key17](), cdr.ErrHash}} {
		p, err := cdr.NewPayloads(c.of, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.AppendInstanceOfHash(nil, [16]byte{}); !errors.Is(err, c.want) {
			t.Errorf("%v: %v", c.of, err)
		}
	}
}

// Values next to each other are not nested.
func TestManyElementsAreNotNested(t *testing.T) {
	type Union struct {
		_ struct{} `dds:"union"`
		D int32    `dds:"switch"`
		A int32    `dds:"case=1"`
	}
	type Inner struct{ N *int32 }
	type Many struct {
		Unions []Union
		Inner  []Inner
	}
	c, v := codec[Many](t), Many{make([]Union, 100), make([]Inner, 100)}
	for _, f := range []cdr.Format{cdr.XCDR1, cdr.XCDR2} {
		var got Many
		b, err := c.Append(nil, &v, f)
		if err == nil {
			err = c.Decode(b, &got)
		}
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%v: %+v, %v", f, got, err)
		}
	}
}

func TestHostileBytesAreRefusedBeforeMemoryIsTaken(t *testing.T) {
	type Big struct {
		A []App
		B []float64
		C map[string]string
		D string
	}
	c := codec[Big](t)
	for _, body := range []string{
		"ffffffff",                   // more elements than bytes
		"0000000000ffffff7f",         // … of the second sequence
		"04000000 ffffff7f",          // a delimiter around a count
		"04000000 00000000 00000020", // 512 M numbers
		"fcffffff 00000000",          // a delimiter beyond the end
		"04000000 00000000 00000000 04000000 00000000 ffffffff",      // a string
		"04000000 00000000 00000000 04000000 00000000 02000000 6161", // a string without its end
	} {
		b, err := hex.DecodeString("00070000" + strings.ReplaceAll(body, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		var v Big
		var after error
		allocated := testing.AllocsPerRun(10, func() { after = c.Decode(b, &v) })
		if !errors.Is(after, cdr.ErrMalformed) || allocated > 40 {
			t.Errorf("%s: %v after %v allocations", body, after, allocated)
		}
	}
}

func TestPayloadsOfAnotherRepresentationAreRefused(t *testing.T) {
	var v KeyApp
	for _, header := range []string{"", "0009", "00070000", "000b0000", "00030000", "ffff0000", "00090003"} {
		b, err := hex.DecodeString(header)
		if err != nil {
			t.Fatal(err)
		}
		if err := codec[KeyApp](t).Decode(b, &v); !errors.Is(err, cdr.ErrMalformed) {
			t.Errorf("%q: %v", header, err)
		}
	}
	full, err := codec[KeyLong](t).Append(nil, &KeyLong{1, "s"}, cdr.XCDR1)
	if err != nil {
		t.Fatal(err)
	}
	if err := codec[KeyLong](t).Decode(append(full, 0, 0, 0, 0), new(KeyLong)); !errors.Is(err, cdr.ErrMalformed) {
		t.Errorf("bytes after a final value: %v", err)
	}
}

func TestKeysOfTypesThatAreNotInCDR(t *testing.T) {
	type Event struct {
		Zone string `dds:"key"`
		When time.Time
		N    int32 `dds:"key"`
		any  any
	}
	k, err := cdr.NewKeyCodec[Event]()
	if err != nil || !k.Keyed() {
		t.Fatal(k.Keyed(), err)
	}
	v := Event{Zone: "z", N: 7, When: time.Unix(1, 2), any: 3}
	b, err := k.Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	var back Event
	if err := k.Decode(b, &back); err != nil || back.Zone != "z" || back.N != 7 || !back.When.IsZero() {
		t.Errorf("%+v, %v", back, err)
	}
	type None struct{ When time.Time }
	if k, err := cdr.NewKeyCodec[None](); err != nil || k.Keyed() {
		t.Errorf("a type without a key: %v, %v", k.Keyed(), err)
	}
}

func TestEncodingAllocatesNothing(t *testing.T) {
	v, c := sample, codec[TenFields](t)
	buf := make([]byte, 0, 1024)
	for _, f := range formats {
		if n := testing.AllocsPerRun(100, func() {
			var err error
			if buf, err = c.Append(buf[:0], &v, f); err != nil {
				t.Fatal(err)
			}
			if _, err = c.KeyHash(&v, f); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", f, n)
		}
	}
}

func ExampleCodec() {
	type Position struct {
		Vehicle int32 `dds:"key"`
		Route   string
		Remark  *string
	}
	codec, err := cdr.New[Position]()
	if err != nil {
		panic(err)
	}
	payload, err := codec.Append(nil, &Position{Vehicle: 7, Route: "B"}, cdr.XCDR2)
	if err != nil {
		panic(err)
	}
	var p Position
	if err := codec.Decode(payload, &p); err != nil {
		panic(err)
	}
	fmt.Printf("%x\n%d %s %v\n", payload, p.Vehicle, p.Route, p.Remark)
	// Output:
	// 00070001070000000200000042000000
	// 7 B <nil>
}
