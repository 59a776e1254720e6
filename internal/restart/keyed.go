package restart

import (
	"encoding/json"
	"errors"

	"github.com/squall-go/squall/views"
)

// MarshalJSON implements json.Marshaler. The view has its key.
func (s Successor) MarshalJSON() ([]byte, error) {
	type fields Successor
	return json.Marshal(struct {
		fields
		View *views.Keyed `json:"view"`
	}{fields(s), (*views.Keyed)(s.View)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Successor) UnmarshalJSON(text []byte) error {
	type fields Successor
	into := struct {
		*fields
		View *views.Keyed `json:"view"`
	}{fields: (*fields)(s)}
	err := json.Unmarshal(text, &into)
	s.View = (*views.View)(into.View)
	return err
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (e Echo) MarshalJSON() ([]byte, error) {
	type fields Echo
	return json.Marshal(struct {
		fields
		View *views.Keyed `json:"view,omitempty"`
	}{fields(e), (*views.Keyed)(e.View)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Echo) UnmarshalJSON(text []byte) error {
	type fields Echo
	into := struct {
		*fields
		View *views.Keyed `json:"view"`
	}{fields: (*fields)(e)}
	err := json.Unmarshal(text, &into)
	e.View = (*views.View)(into.View)
	return err
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (a Accepted) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Ballot    Ballot       `json:"ballot"`
		View      *views.Keyed `json:"view"`
		Restarted bool         `json:"restarted,omitempty"`
		Secret    string       `json:"secret,omitempty"`
	}{a.Ballot, (*views.Keyed)(a.View), a.Restarted, a.Secret})
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Accepted) UnmarshalJSON(text []byte) error {
	err := json.Unmarshal(text, &a.Successor)
	return errors.Join(err, json.Unmarshal(text, &struct {
		Ballot *Ballot `json:"ballot"`
	}{&a.Ballot}))
}
