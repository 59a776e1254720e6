package handshake

import (
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

// named are links of a transport that are never made.
type named struct{ fabric.Links }

func (named) Name() string { return "fast" }

// ends are the specs of both members of a view.
func ends() (specs [2]*fabric.Spec) {
	identities := [2]*trust.Identity{trust.NewIdentity(), trust.NewIdentity()}
	for self := range specs {
		specs[self] = &fabric.Spec{Scope: trust.Scope{Cluster: "c", View: 1, Key: "key"}, Identity: identities[self], Self: order.Rank(self)}
		for r, i := range identities {
			specs[self].Peers = append(specs[self].Peers, fabric.Peer{ID: order.NodeID(r + 1), PublicKey: i.PublicKey()})
		}
	}
	return specs
}

func TestATransportIsUsedIfBothHaveItAndNobodyElseSaysSo(t *testing.T) {
	conn, _ := net.Pipe()
	defer conn.Close()
	for dialer := range 2 {
		for listener := range 2 {
			s := ends()
			for self, has := range []int{listener, dialer} {
				if has == 1 {
					s[self].Links = named{}
				}
			}
			challenge := Challenge{trust.NewNonce()}
			h, err := NewHello(s[1], 0, challenge)
			if err != nil {
				t.Fatal(err)
			}
			w, err := Answer(s[0], h, nil)
			if err = errors.Join(err, Check(s[0], conn, challenge, h), Heed(s[1], conn, h, w)); err != nil {
				t.Fatal(err)
			}
			if both := dialer+listener == 2; (w.Transport == "fast") != both {
				t.Errorf("dialer %d, listener %d: %q", dialer, listener, w.Transport)
			}
			// Members that know of no transports authenticate greetings without the field.
			for has, greeting := range map[any]int{h: dialer, w: dialer * listener} {
				if text, _ := json.Marshal(has); strings.Contains(string(text), "transport") != (greeting == 1) {
					t.Errorf("dialer %d, listener %d: %s", dialer, listener, text)
				}
			}
			h2, w2 := h, w
			h2.Transport, w2.Transport = h.Transport+"!", w.Transport+"!"
			if err := Check(s[0], conn, challenge, h2); !errors.Is(err, trust.ErrUnproven) {
				t.Errorf("a Hello that was changed on its way: %v", err)
			}
			if err := Heed(s[1], conn, h, w2); !errors.Is(err, trust.ErrUnproven) {
				t.Errorf("a Welcome that was changed on its way: %v", err)
			}
		}
	}
}
