package join

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Word is a member's word, for the leader, that it was greeted by a joiner in a view, and reached
// the joiner at its address.
type Word struct {
	ID   order.NodeID `json:"id"` // of the member
	Text string       `json:"word"`
}

// wordBytes is the length of a word before it is written as text.
const wordBytes = 16

// wordOf makes a member's word about a joiner. Only members can: it takes the view's key.
func wordOf(v *views.View, by, joiner views.Member) string {
	record, err := json.Marshal(joiner)
	if err != nil {
		panic(fmt.Errorf("join: a member that is no JSON: %w", err)) // a plain struct of numbers and strings
	}
	mac := hmac.New(sha256.New, []byte(v.Key()))
	fmt.Fprintf(mac, "squall: greeted in view %d by %d.%d: %s", v.ID, by.ID, by.Incarnation, record)
	return hex.EncodeToString(mac.Sum(nil)[:wordBytes])
}

// unproved finds a member of the view, other than this one, whose word about a joiner is not among
// some.
func (g *Acceptor) unproved(joiner views.Member, words []Word) (views.Member, bool) {
	for r, m := range g.view.Members {
		if order.Rank(r) == g.self {
			continue
		}
		want := wordOf(g.view, m, joiner)
		if !slices.ContainsFunc(words, func(w Word) bool { return w.ID == m.ID && hmac.Equal([]byte(w.Text), []byte(want)) }) {
			return m, true
		}
	}
	return views.Member{}, false
}
