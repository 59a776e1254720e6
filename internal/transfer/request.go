package transfer

import (
	"fmt"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// challenge is what a source says first.
type challenge struct {
	Nonce trust.Nonce `json:"nonce"`
}

// request is what a fresh member says.
type request struct {
	View     order.ViewID `json:"view"` // in which the member is fresh
	Subgroup int          `json:"subgroup"`
	Node     order.NodeID `json:"node"`
	Done     bool         `json:"done,omitempty"` // the sender has the state, and needs no other one
	Nonce    trust.Nonce  `json:"nonce"`
	MAC      trust.MAC    `json:"mac"` // of the challenge and all that
}

func (q request) String() string {
	return fmt.Sprintf("node %d, subgroup %d of view %d", q.Node, q.Subgroup, q.View)
}

// answer precedes the stream. One without reasons grants what was asked for.
type answer struct {
	Later   string    `json:"later,omitempty"`   // why not now
	Refused string    `json:"refused,omitempty"` // why never
	MAC     trust.MAC `json:"mac,omitzero"`      // of the request and all that; none if the view is not known at the source
}

// key returns the key that two members of a view share for the transfer of states.
func key(i *trust.Identity, v *views.View, self, peer order.NodeID) (k trust.Key, err error) {
	s, ok := v.RankOf(self)
	p, known := v.RankOf(peer)
	if !ok || !known {
		return k, fmt.Errorf("%w: nodes %d and %d are not both members of view %d", trust.ErrUnproven, self, peer, v.ID)
	}
	return i.Key(trust.State, v.Scope(), v.Members[s].Party(), v.Members[p].Party())
}

// sign authenticates a request.
func (q *request) sign(k trust.Key, c challenge) {
	q.MAC = trust.MAC{}
	q.MAC = k.MAC(trust.Dialer, c, *q)
}

func (q request) check(k trust.Key, c challenge) error {
	said := q
	said.MAC = trust.MAC{}
	return k.Check(q.MAC, trust.Dialer, c, said)
}

// sign authenticates the answer to a request.
func (a *answer) sign(k trust.Key, q request) {
	a.MAC = trust.MAC{}
	a.MAC = k.MAC(trust.Listener, q, *a)
}

func (a answer) check(k trust.Key, q request) error {
	said := a
	said.MAC = trust.MAC{}
	return k.Check(a.MAC, trust.Listener, q, said)
}

// maxGreetingBytes bounds a challenge, a request, and an answer.
const maxGreetingBytes = 8 << 10

// Sizes of the frames of a stream: the frames that are sent, and the largest that is received.
const (
	frameBytes    = 256 << 10
	maxFrameBytes = 1 << 20
)
