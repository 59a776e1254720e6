package restart

import (
	"encoding/json"
	"errors"

	"github.com/squall-go/squall/views"
)

// keyed is the JSON of a view with its key, as part of a larger one: what a method of a part writes
// or reads, encoding/json goes through once more.
type keyed struct {
	*views.View
	Key string `json:"key"`
}

func keyedOf(v *views.View) *keyed {
	if v == nil {
		return nil
	}
	return &keyed{v, v.Key()}
}

// view is what was decoded; nil: nothing was.
func (k *keyed) view() *views.View {
	if k == nil {
		return nil
	}
	if k.View == nil {
		k.View = &views.View{} // an object without any of its fields
	}
	return k.WithKey(k.Key)
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (s Successor) MarshalJSON() ([]byte, error) {
	type fields Successor
	return json.Marshal(struct {
		fields
		View *keyed `json:"view"`
	}{fields(s), keyedOf(s.View)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Successor) UnmarshalJSON(text []byte) error {
	type fields Successor
	into := struct {
		*fields
		View *keyed `json:"view"`
	}{fields: (*fields)(s)}
	err := json.Unmarshal(text, &into)
	s.View = into.View.view()
	return err
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (e Echo) MarshalJSON() ([]byte, error) {
	type fields Echo
	return json.Marshal(struct {
		fields
		View *keyed `json:"view,omitempty"`
	}{fields(e), keyedOf(e.View)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Echo) UnmarshalJSON(text []byte) error {
	type fields Echo
	into := struct {
		*fields
		View *keyed `json:"view"`
	}{fields: (*fields)(e)}
	err := json.Unmarshal(text, &into)
	e.View = into.View.view()
	return err
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (a Accepted) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Ballot    Ballot `json:"ballot"`
		View      *keyed `json:"view"`
		Restarted bool   `json:"restarted,omitempty"`
		Secret    string `json:"secret,omitempty"`
	}{a.Ballot, keyedOf(a.View), a.Restarted, a.Secret})
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Accepted) UnmarshalJSON(text []byte) error {
	err := json.Unmarshal(text, &a.Successor)
	return errors.Join(err, json.Unmarshal(text, &struct {
		Ballot *Ballot `json:"ballot"`
	}{&a.Ballot}))
}
