package cdr_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall/dds/cdr"
)

// seeds are the payloads of CycloneDDS, and those of a value in the formats that it does not write.
func seeds(f *testing.F) {
	lines, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		if words := strings.Fields(line); len(words) == 3 && strings.HasPrefix(words[1], "payload") {
			if b, err := hex.DecodeString(words[2]); err == nil {
				f.Add(b)
			}
		}
	}
	wide := Wide{B: &Wide{F: new("f")}, C: map[int8]int8{1: 2}, E: []int16{1}}
	wide.A.Names, wide.A.Any = map[string]int32{"a": 1}, []Mut{mut}
	for _, format := range formats {
		b, err := codec[Wide](f).Append(nil, &wide, format)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

var compiledTypes sync.Map // by reflect.Type

func compiledOnce[T any](t *testing.T) *cdr.Codec[T] {
	c, ok := compiledTypes.Load(reflect.TypeFor[T]())
	if !ok {
		c, _ = compiledTypes.LoadOrStore(reflect.TypeFor[T](), codec[T](t))
	}
	return c.(*cdr.Codec[T])
}

// decodes reads bytes as a T. What is accepted is a value that has the same bytes each time that it
// is encoded, and decodes to itself.
func decodes[T any](t *testing.T, b []byte) {
	c := compiledOnce[T](t)
	var v, back T
	if err := c.DecodeKey(b, &v); err == nil {
		if _, err := c.AppendKey(nil, &v, cdr.XCDR2); err != nil {
			t.Fatalf("a key that was decoded: %v", err)
		}
	}
	if c.Decode(b, &v) != nil {
		if !reflect.ValueOf(v).IsZero() {
			t.Fatalf("what is refused left %+v", v)
		}
		return
	}
	for _, f := range formats {
		once, err := c.Append(nil, &v, f)
		if err != nil {
			t.Fatalf("%v of what was decoded: %v", f, err)
		}
		if err := c.Decode(once, &back); err != nil {
			t.Fatalf("%v: %x: %v", f, once, err)
		}
		twice, err := c.Append(nil, &back, f)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v: %x and %x (%v)", f, once, twice, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		decodes[Scalars](t, b)
		decodes[NestedX1](t, b)
		decodes[NestedX2](t, b)
		decodes[Opt](t, b)
		decodes[App](t, b)
		decodes[Mut](t, b)
		decodes[Wide](t, b)
		decodes[EverythingAppendable](t, b)
		decodes[KeyNest](t, b)
		decodes[KeyMut](t, b)
	})
}
