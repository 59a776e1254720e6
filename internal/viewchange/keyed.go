package viewchange

import (
	"encoding/json"

	"github.com/squall-go/squall/views"
)

// Keyed is a View as its members exchange it and as their disks keep it: its JSON has the key.
type Keyed views.View

// keyedFields is a Keyed within a record that is encoded as a whole. It has no methods of JSON:
// what such a method writes or reads, encoding/json goes through once more.
type keyedFields struct {
	*views.View
	Key string `json:"key"`
}

func fieldsOf(v *views.View) *keyedFields {
	if v == nil {
		return nil
	}
	return &keyedFields{v, v.Key()}
}

// view is what was decoded; nil: nothing was.
func (k *keyedFields) view() *views.View {
	if k == nil {
		return nil
	}
	if k.View == nil {
		k.View = &views.View{} // an object without any of its fields
	}
	k.View.SetKey(k.Key)
	return k.View
}

// MarshalJSON implements json.Marshaler.
func (k *Keyed) MarshalJSON() ([]byte, error) { return json.Marshal(fieldsOf((*views.View)(k))) }

// UnmarshalJSON implements json.Unmarshaler.
func (k *Keyed) UnmarshalJSON(text []byte) error {
	into := struct {
		*views.View
		Key *string `json:"key"`
	}{View: (*views.View)(k)}
	err := json.Unmarshal(text, &into)
	if into.Key != nil {
		into.View.SetKey(*into.Key)
	}
	return err
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
