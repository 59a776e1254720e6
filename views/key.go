package views

import (
	"encoding/json"
	"fmt"
	"io"
)

// Key is known to the members of the view only: it enters the keys with which they authenticate
// each other. It is no field, and neither the JSON nor the text of a View has it, so that an
// application that logs a view does not publish it.
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

// MarshalJSON implements json.Marshaler.
func (k *Keyed) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		*View
		Key string `json:"key"`
	}{(*View)(k), k.key})
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *Keyed) UnmarshalJSON(text []byte) error {
	into := struct {
		*View
		Key *string `json:"key"`
	}{(*View)(k), &k.key}
	return json.Unmarshal(text, &into)
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (d Decision) MarshalJSON() ([]byte, error) {
	type fields Decision
	return json.Marshal(struct {
		fields
		View *Keyed `json:"view,omitempty"`
	}{fields(d), (*Keyed)(d.View)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Decision) UnmarshalJSON(text []byte) error {
	type fields Decision
	into := struct {
		*fields
		View *Keyed `json:"view"`
	}{fields: (*fields)(d)}
	err := json.Unmarshal(text, &into)
	d.View = (*View)(into.View)
	return err
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (p proposal) MarshalJSON() ([]byte, error) {
	type fields proposal
	return json.Marshal(struct {
		fields
		View *Keyed `json:"view,omitempty"`
	}{fields(p), (*Keyed)(p.View)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *proposal) UnmarshalJSON(text []byte) error {
	type fields proposal
	into := struct {
		*fields
		View *Keyed `json:"view"`
	}{fields: (*fields)(p)}
	err := json.Unmarshal(text, &into)
	p.View = (*View)(into.View)
	return err
}
