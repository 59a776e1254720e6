package join

import (
	"encoding/json"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/views"
)

// MarshalJSON implements json.Marshaler. The view has its key.
func (m Message) MarshalJSON() ([]byte, error) {
	type fields Message
	return json.Marshal(struct {
		fields
		View *viewchange.Keyed `json:"view,omitempty"`
	}{fields(m), (*viewchange.Keyed)(m.View)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Message) UnmarshalJSON(text []byte) error {
	type fields Message
	into := struct {
		*fields
		View *viewchange.Keyed `json:"view"`
	}{fields: (*fields)(m)}
	err := json.Unmarshal(text, &into)
	m.View = (*views.View)(into.View)
	return err
}
