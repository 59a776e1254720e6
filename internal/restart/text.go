package restart

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/squall-go/squall/views"
)

// text is what the sum of a message is about: the JSON of all the rest of it. Processes that come
// back say Hello to each other again and again, and check the sum of each: so the JSON of a plain
// message, which has neither views nor logs, is put together by hand.
func (m Message) text() []byte {
	if m.Sum = nil; m.plain() {
		return m.appendPlain(make([]byte, 0, 512))
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Errorf("restart: a message that is no JSON: %w", err)) // plain structs of numbers and strings
	}
	return text
}

// plain reports whether appendPlain writes all that a message has, but for its sum.
func (m *Message) plain() bool {
	return m.Next == (Successor{}) && m.Accepted == nil && m.Echo == nil && len(m.Logs) == 0 && m.LogsFor == "" && len(m.Plan) == 0 && !m.Enter &&
		m.Promised == (Ballot{}) && m.Text == ""
}

// appendPlain appends what json.Marshal makes of a plain message.
func (m *Message) appendPlain(b []byte) []byte {
	b = appendText(append(b, `{"verb":`...), string(m.Verb))
	b = appendText(append(b, `,"cluster":`...), m.Cluster)
	b = appendMember(append(b, `,"from":`...), &m.From)
	b = appendNumber(b, `,"view_id":`, uint64(m.ViewID))
	b = appendName(b, `,"key":`, m.Key)
	b = appendName(b, `,"group":`, m.Group)
	b = appendName(b, `,"lineage":`, m.Lineage)
	b = appendNumber(b, `,"to":`, m.To)
	b = appendNumber(b, `,"count":`, m.Count)
	if m.Ballot != (Ballot{}) {
		b = strconv.AppendUint(append(b, `,"ballot":{"round":`...), m.Ballot.Round, 10)
		b = append(strconv.AppendUint(append(b, `,"node":`...), uint64(m.Ballot.Node), 10), '}')
	}
	if m.Counts {
		b = append(b, `,"counts":true`...)
	}
	if m.Able {
		b = append(b, `,"able":true`...)
	}
	b = appendList(b, `,"lacks":`, m.Lacks, func(b []byte, id LogID) []byte {
		b = appendText(append(b, `{"name":`...), id.Name)
		if id.Shard != 0 {
			b = strconv.AppendInt(append(b, `,"shard":`...), int64(id.Shard), 10)
		}
		return append(b, '}')
	})
	return append(appendList(b, `,"peers":`, m.Peers, appendText), '}')
}

func appendMember(b []byte, m *views.Member) []byte {
	b = strconv.AppendUint(append(b, `{"id":`...), uint64(m.ID), 10)
	b = appendNumber(b, `,"incarnation":`, m.Incarnation)
	b = appendText(append(b, `,"addr":`...), m.Addr)
	b = appendName(b, `,"host":`, m.Host)
	b = appendName(b, `,"shm":`, m.SHM)
	b = appendNumber(b, `,"disk":`, m.Disk)
	b = appendName(b, `,"gave_up":`, m.GaveUp)
	if !m.PublicKey.IsZero() {
		b = appendText(append(b, `,"public_key":`...), m.PublicKey.String())
	}
	if !m.Certificate.IsZero() {
		b = appendText(append(b, `,"certificate":`...), m.Certificate.String())
	}
	return append(b, '}')
}

// appendNumber appends a field that is left out if it is 0.
func appendNumber(b []byte, field string, n uint64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendUint(append(b, field...), n, 10)
}

// appendName appends a field that is left out if it is empty.
func appendName(b []byte, field, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(append(b, field...), text)
}

// appendList appends a list that is left out if it is empty.
func appendList[T any](b []byte, field string, list []T, one func([]byte, T) []byte) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, field...)
	for i, x := range list {
		if i == 0 {
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = one(b, x)
	}
	return append(b, ']')
}

// appendText appends a string.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic(fmt.Errorf("restart: a string that is no JSON: %w", err)) // all of them are
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}
