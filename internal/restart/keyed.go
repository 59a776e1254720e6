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

type (
	successorFields Successor
	echoFields      Echo
)

// keyedSuccessor, keyedEcho and keyedAccepted are what the JSON of these has, as parts of a larger
// one.
type (
	keyedSuccessor struct {
		successorFields
		View *keyed `json:"view"`
	}
	keyedEcho struct {
		echoFields
		View *keyed `json:"view,omitempty"`
	}
	keyedAccepted struct {
		Ballot    Ballot `json:"ballot"`
		View      *keyed `json:"view"`
		Restarted bool   `json:"restarted,omitempty"`
		Secret    string `json:"secret,omitempty"`
	}
)

func (s Successor) keyed() keyedSuccessor {
	return keyedSuccessor{successorFields(s), keyedOf(s.View)}
}

// keyed returns the echo with its key; nil if there is no echo.
func (e *Echo) keyed() *keyedEcho {
	if e == nil {
		return nil
	}
	return &keyedEcho{echoFields(*e), keyedOf(e.View)}
}

// keyed returns the vote with its key; nil if there is no vote.
func (a *Accepted) keyed() *keyedAccepted {
	if a == nil {
		return nil
	}
	return &keyedAccepted{a.Ballot, keyedOf(a.View), a.Restarted, a.Secret}
}

// MarshalJSON implements json.Marshaler. The view has its key.
func (s Successor) MarshalJSON() ([]byte, error) { return json.Marshal(s.keyed()) }

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
func (e Echo) MarshalJSON() ([]byte, error) { return json.Marshal(e.keyed()) }

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
func (a Accepted) MarshalJSON() ([]byte, error) { return json.Marshal(a.keyed()) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *Accepted) UnmarshalJSON(text []byte) error {
	err := json.Unmarshal(text, &a.Successor)
	return errors.Join(err, json.Unmarshal(text, &struct {
		Ballot *Ballot `json:"ballot"`
	}{&a.Ballot}))
}
