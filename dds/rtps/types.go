package rtps

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/squall-go/squall/dds/cdr"
)

// Type is what a gateway knows of the type of a topic: its name, and where the keys are in a
// sample.
type Type struct {
	name     string
	payloads *cdr.Payloads
}

// Name is the name of the type in DDS.
func (t *Type) Name() string { return t.name }

// TypeOf returns the type of a Go struct, as package cdr encodes it.
func TypeOf[T any]() (*Type, error) {
	p, err := cdr.NewPayloads(reflect.TypeFor[T](), "")
	if err != nil {
		return nil, err
	}
	return &Type{p.TypeName(), p}, nil
}

// ErrType is returned for a description of a type that cannot be read.
var ErrType = errors.New("rtps: description of a type")

// primitives are the types of members in a description, in the words of IDL.
var primitives = map[string]reflect.Type{
	"boolean": reflect.TypeFor[bool](), "octet": reflect.TypeFor[uint8](), "char": reflect.TypeFor[uint8](), "uint8": reflect.TypeFor[uint8](), "int8": reflect.TypeFor[int8](),
	"short": reflect.TypeFor[int16](), "int16": reflect.TypeFor[int16](), "unsigned short": reflect.TypeFor[uint16](), "uint16": reflect.TypeFor[uint16](),
	"long": reflect.TypeFor[int32](), "int32": reflect.TypeFor[int32](), "unsigned long": reflect.TypeFor[uint32](), "uint32": reflect.TypeFor[uint32](),
	"long long": reflect.TypeFor[int64](), "int64": reflect.TypeFor[int64](), "unsigned long long": reflect.TypeFor[uint64](), "uint64": reflect.TypeFor[uint64](),
	"float": reflect.TypeFor[float32](), "double": reflect.TypeFor[float64](), "string": reflect.TypeFor[string](),
}

// ParseType reads a description of a final type in words of IDL: its name, and its members in
// braces.
//
//	HelloWorldData::Msg { @key long userID; string message; }
//
// Members are numbers, strings, sequences and arrays of them. Types with other members are for
// TypeOf.
func ParseType(text string) (*Type, error) {
	name, rest, ok := strings.Cut(text, "{")
	members, behind, closed := strings.Cut(rest, "}")
	name = strings.TrimSpace(name)
	if !ok || !closed || name == "" || strings.Trim(behind, "; \t\n") != "" {
		return nil, fmt.Errorf("%w: %q is no name with members in braces", ErrType, text)
	}
	var fields []reflect.StructField
	for m := range strings.SplitSeq(members, ";") {
		if m = strings.TrimSpace(m); m == "" {
			continue
		}
		f, err := field(m, len(fields))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %v", ErrType, name, err)
		}
		fields = append(fields, f)
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%w: %s has no members", ErrType, name)
	}
	p, err := cdr.NewPayloads(reflect.StructOf(fields), name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrType, name, err)
	}
	return &Type{name, p}, nil
}

// field reads one member, such as "@key sequence<octet, 16> id[2]".
func field(m string, at int) (f reflect.StructField, err error) {
	tag := ""
	if rest, ok := strings.CutPrefix(m, "@key"); ok {
		tag, m = ",key", strings.TrimSpace(rest)
	}
	space := strings.LastIndexAny(m, " >")
	if space < 0 {
		return f, fmt.Errorf("%q is no type and name", m)
	}
	kind, name := strings.TrimSpace(m[:space+1]), strings.TrimSpace(m[space+1:])
	name, dimension, array := strings.Cut(name, "[")
	t, bound, err := typeOf(kind)
	if err != nil {
		return f, err
	}
	if bound > 0 {
		tag += fmt.Sprintf(",bound=%d", bound)
	}
	if array {
		n, err := strconv.Atoi(strings.TrimSuffix(dimension, "]"))
		if err != nil || n < 1 || n > 1<<20 {
			return f, fmt.Errorf("%q is no number of elements", dimension)
		}
		t = reflect.ArrayOf(n, t)
	}
	if name == "" || strings.ContainsAny(name, "\"`,=") {
		return f, fmt.Errorf("%q has no name", m)
	}
	return reflect.StructField{Name: "M" + strconv.Itoa(at), Type: t, Tag: reflect.StructTag(fmt.Sprintf(`dds:"name=%s%s"`, name, tag))}, nil
}

// typeOf reads the type of a member, and the bound of a string or a sequence.
func typeOf(kind string) (t reflect.Type, bound int, err error) {
	if base, of, ok := strings.Cut(kind, "<"); ok {
		of, limit, bounded := strings.Cut(strings.TrimSuffix(of, ">"), ",")
		if base == "string" {
			of, limit, bounded = "string", of, true
		}
		if bounded {
			if bound, err = strconv.Atoi(strings.TrimSpace(limit)); err != nil || bound < 1 {
				return nil, 0, fmt.Errorf("%q is no bound", limit)
			}
		}
		elem := primitives[strings.TrimSpace(of)]
		switch {
		case elem == nil || base != "string" && base != "sequence":
			return nil, 0, fmt.Errorf("%q is no type of a member here", kind)
		case base == "string":
			return elem, bound, nil
		}
		return reflect.SliceOf(elem), bound, nil
	}
	if t = primitives[kind]; t == nil {
		return nil, 0, fmt.Errorf("%q is no type of a member here", kind)
	}
	return t, 0, nil
}
