package cdr_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/squall-go/squall/dds/cdr"
)

// The key of a sample, and of a dispose, is what Key writes, in each format; a dispose is made of
// it as Codec makes it.
func TestPayloadsHaveTheKeysOfTheirType(t *testing.T) {
	type sample struct {
		N     uint32
		Name  string `dds:"key,id=9"`
		Where int64  `dds:"key,id=3"`
		Body  []byte `dds:"id=10"`
	}
	codec, err := cdr.New[sample]()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := cdr.NewKey[sample]()
	if err != nil {
		t.Fatal(err)
	}
	p, err := cdr.NewPayloads(reflect.TypeFor[sample](), "")
	if err != nil || !p.Keyed() || p.TypeName() != codec.TypeName() {
		t.Fatalf("%v, %v", p, err)
	}
	v := sample{N: 1, Name: "a name", Where: -5, Body: []byte("body")}
	want, err := keys.Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []cdr.Format{cdr.XCDR1, cdr.XCDR2, cdr.XCDR1 | cdr.BigEndian, cdr.XCDR2 | cdr.BigEndian} {
		payload, err := codec.Append(nil, &v, f)
		if err != nil {
			t.Fatal(err)
		}
		if key, err := p.AppendInstance(nil, payload); err != nil || !bytes.Equal(key, want) {
			t.Errorf("%v: the key of a sample is %x (%v), and not %x", f, key, err, want)
		}
		if _, err := p.AppendInstance(nil, payload[:len(payload)-8]); err == nil {
			t.Errorf("%v: a sample that is cut has a key", f)
		}
		dispose, err := codec.AppendKey(nil, &v, f)
		if err != nil {
			t.Fatal(err)
		}
		if key, err := p.AppendInstanceOfKey(nil, dispose); err != nil || !bytes.Equal(key, want) {
			t.Errorf("%v: the key of a dispose is %x (%v), and not %x", f, key, err, want)
		}
		if again, err := p.AppendKey(nil, want, f); err != nil || !bytes.Equal(again, dispose) {
			t.Errorf("%v: the dispose is %x (%v), and not %x", f, again, err, dispose)
		}
	}
	if _, err := cdr.NewPayloads(reflect.TypeFor[int](), "n"); err == nil {
		t.Error("a number is a type of samples")
	}
}

// The key of an instance is read from its hash where the hash has room for every key of the type.
func TestKeysAreReadFromHashes(t *testing.T) {
	type small struct {
		Wide  int64  `dds:"key,id=1"`
		Short int16  `dds:"key,id=0"`
		Body  string `dds:"id=2"`
	}
	codec, err := cdr.New[small]()
	if err != nil {
		t.Fatal(err)
	}
	p, err := cdr.NewPayloads(reflect.TypeFor[small](), "")
	if err != nil {
		t.Fatal(err)
	}
	v := small{Wide: -7, Short: 300, Body: "body"}
	payload, err := codec.Append(nil, &v, cdr.XCDR1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.AppendInstance(nil, payload)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := codec.KeyHash(&v, cdr.XCDR1)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := p.AppendInstanceOfHash(nil, hash); err != nil || !bytes.Equal(key, want) {
		t.Errorf("the key of the hash %x is %x (%v), and not %x", hash, key, err, want)
	}
	type large struct {
		Name string `dds:"key"`
	}
	if p, err = cdr.NewPayloads(reflect.TypeFor[large](), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AppendInstanceOfHash(nil, hash); !errors.Is(err, cdr.ErrHash) {
		t.Errorf("a key of any length is read from a hash: %v", err)
	}
	type one struct {
		N uint32 `dds:"key"`
	}
	if p, err = cdr.NewPayloads(reflect.TypeFor[one](), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AppendInstanceOfHash(nil, [16]byte{1, 2, 3, 4, 5}); !errors.Is(err, cdr.ErrMalformed) {
		t.Errorf("a hash has more than a key: %v", err)
	}
}
