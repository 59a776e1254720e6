package cdr_test

import (
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/squall-go/squall/dds/cdr"
)

// TenFields is what encoders are compared with.
type TenFields struct {
	ID       int64 `dds:"key"`
	Name     string
	X, Y, Z  float64
	Speed    float32
	Count    uint32
	Flags    uint16
	Active   bool
	Readings []int32
}

var sample = TenFields{12345, "vehicle-42", 1.5, -2.25, 3.75, 12.5, 1000, 7, true, []int32{1, 2, 3, 4, 5, 6, 7, 8}}

func BenchmarkEncode(b *testing.B) {
	v, c := sample, codec[TenFields](b)
	for name, f := range map[string]cdr.Format{"XCDR1": cdr.XCDR1, "XCDR2": cdr.XCDR2} {
		b.Run("v="+name, func(b *testing.B) {
			buf := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buf, err = c.Append(buf[:0], &v, f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("v=CBOR", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := cbor.Marshal(&v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	v, c := sample, codec[TenFields](b)
	for name, f := range map[string]cdr.Format{"XCDR1": cdr.XCDR1, "XCDR2": cdr.XCDR2} {
		b.Run("v="+name, func(b *testing.B) {
			payload, err := c.Append(nil, &v, f)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Decode(payload, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("v=CBOR", func(b *testing.B) {
		encoded, err := cbor.Marshal(&v)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			var w TenFields
			if err := cbor.Unmarshal(encoded, &w); err != nil {
				b.Fatal(err)
			}
		}
	})
}
