package member

import (
	"fmt"
	"io"
	"reflect"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

// values is what the application provides for its state, without its type.
type values struct {
	reset   func() // begins anew
	capture func() (func(io.Writer) error, error)
	restore func(io.Reader) error // into a state that was reset
}

// valuesOf returns the functions for the states of a replica that fresh returns: those of a
// Snapshotter, or CBOR.
func valuesOf[S any](r *replica, fresh func() S) values {
	v := values{reset: func() { r.state = fresh() }}
	if _, ok := any(fresh()).(Snapshotter); ok {
		v.capture = func() (func(io.Writer) error, error) { return r.state.(Snapshotter).Snapshot(), nil }
		v.restore = func(from io.Reader) error { return r.state.(Snapshotter).Restore(from) }
		return v
	}
	v.capture = func() (func(io.Writer) error, error) {
		data, err := invoke.Marshal(r.state)
		return func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}, err
	}
	v.restore = func(from io.Reader) error {
		data, err := io.ReadAll(from)
		if err != nil {
			return err
		}
		s := r.state.(S)
		clearEncoded(reflect.ValueOf(&s).Elem()) // what the encoding lacks is not what fresh put there
		if err := invoke.Unmarshal(data, &s); err != nil {
			return err
		}
		r.state = s
		return nil
	}
	return v
}

// encodable returns an error if CBOR would leave out fields of a state.
func encodable(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ MarshalCBOR() ([]byte, error) }]()) {
		return nil
	}
	for i := range t.NumField() {
		if f := t.Field(i); !f.IsExported() && f.Type.Size() > 0 {
			return fmt.Errorf("the field %s of %s is not exported, so that it would not be handed to new members: export it, or implement Snapshotter", f.Name, t)
		}
	}
	return nil
}

// clearEncoded clears what CBOR will set in a state: all of it, or the encoded fields of a struct.
func clearEncoded(v reflect.Value) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.CanAddr() && v.Addr().Type().Implements(reflect.TypeFor[interface{ UnmarshalCBOR([]byte) error }]()) {
		return
	}
	if v.Kind() != reflect.Struct {
		v.SetZero()
		return
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("cbor") != "-" && (f.Tag.Get("cbor") != "" || f.Tag.Get("json") != "-") {
			v.Field(i).SetZero()
		}
	}
}
