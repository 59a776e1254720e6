package views

import (
	"encoding/json"
	"fmt"
	"io"
)

// Key is known to the members of the view only: it enters the keys with which they authenticate
// each other. It is not an exported field, and neither the JSON nor the text of a View contains it,
// so that an application that logs a view does not disclose the key.
func (v *View) Key() string { return v.key }

// SetKey gives a key to a view that is being made.
func (v *View) SetKey(key string) { v.key = key }

// WithKey is SetKey, and returns the view.
func (v *View) WithKey(key string) *View {
	v.key = key
	return v
}

// String describes the view in a line.
func (v View) String() string {
	return fmt.Sprintf("view %d of %q: %s", v.ID, v.Cluster, names(v.Members))
}

// Format writes String, whatever the verb: no verb shows the key.
func (v View) Format(f fmt.State, _ rune) { io.WriteString(f, v.String()) }

// Keyed is a View as its members exchange it and as their disks keep it: its JSON has the key.
type Keyed View

// keyedFields is a Keyed within a record that is encoded as a whole. It has no methods of JSON:
// what such a method writes or reads, encoding/json goes through once more.
type keyedFields struct {
	*View
	Key string `json:"key"`
}

func fieldsOf(v *View) *keyedFields {
	if v == nil {
		return nil
	}
	return &keyedFields{v, v.key}
}

// view is what was decoded; nil: nothing was.
func (k *keyedFields) view() *View {
	if k == nil {
		return nil
	}
	if k.View == nil {
		k.View = &View{} // an object without any of its fields
	}
	k.key = k.Key
	return k.View
}

// MarshalJSON implements json.Marshaler.
func (k *Keyed) MarshalJSON() ([]byte, error) { return json.Marshal(fieldsOf((*View)(k))) }

// UnmarshalJSON implements json.Unmarshaler.
func (k *Keyed) UnmarshalJSON(text []byte) error {
	into := struct {
		*View
		Key *string `json:"key"`
	}{(*View)(k), &k.key}
	return json.Unmarshal(text, &into)
}

// fields is what the JSON of a decision has: the view with its key.
func (d *Decision) fields() any {
	type fields Decision
	return &struct {
		*fields
		View *keyedFields `json:"view,omitempty"`
	}{(*fields)(d), fieldsOf(d.View)}
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (d Decision) MarshalJSON() ([]byte, error) { return json.Marshal(d.fields()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Decision) UnmarshalJSON(text []byte) error {
	type fields Decision
	into := struct {
		*fields
		View *keyedFields `json:"view"`
	}{fields: (*fields)(d)}
	err := json.Unmarshal(text, &into)
	d.View = into.View.view()
	return err
}

// fields is what the JSON of a proposal has: the view with its key.
func (p *proposal) fields() any {
	type fields proposal
	return &struct {
		*fields
		View *keyedFields `json:"view,omitempty"`
	}{(*fields)(p), fieldsOf(p.View)}
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (p proposal) MarshalJSON() ([]byte, error) { return json.Marshal(p.fields()) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *proposal) UnmarshalJSON(text []byte) error {
	type fields proposal
	into := struct {
		*fields
		View *keyedFields `json:"view"`
	}{fields: (*fields)(p)}
	err := json.Unmarshal(text, &into)
	p.View = into.View.view()
	return err
}
