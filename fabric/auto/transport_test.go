package auto

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

var errNoMemory = errors.New("too little memory may be locked")

// failing is a transport that makes no link; with opens, it finds that out for each link.
type failing struct {
	fabric.Links
	opens bool
}

func (f failing) Open(*fabric.Spec, []byte) (fabric.Links, error) {
	if !f.opens {
		return nil, errNoMemory
	}
	return f, nil
}

func (failing) Name() string { return "failing" }
func (failing) Close() error { return nil }

func (failing) Connect(context.Context, net.Conn, order.Rank) (fabric.Link, error) {
	return nil, fmt.Errorf("%w: %w", fabric.ErrRefused, errNoMemory)
}

func TestWhyTheTransportIsNotUsedIsTold(t *testing.T) {
	for _, opens := range []bool{false, true} {
		told := make(chan error, 8)
		var peers []fabric.Peer
		var members []*member
		for id := range order.NodeID(2) {
			m := newMember(t, TCP)
			m.mode, m.transport, m.instead = Auto, failing{opens: opens}, func(err error) { told <- err }
			members, peers = append(members, m), append(peers, m.peer(id+1))
		}
		for r, m := range members {
			table := m.open(1, order.Rank(r), peers...)
			defer func() {
				if err := await(t, table); !errors.Is(table.Fallback(order.Rank(1-r)), errNoMemory) {
					t.Errorf("rank %d: instead: %v, %v", r, table.Fallback(order.Rank(1-r)), err)
				} else if err != nil || table.LinkName(order.Rank(1-r)) != "tcp" {
					t.Errorf("rank %d: %v, %s", r, err, table.LinkName(order.Rank(1-r)))
				}
			}()
		}
		for range members {
			if err := <-told; !errors.Is(err, errNoMemory) {
				t.Errorf("opens %v: %v", opens, err)
			}
		}
	}
}

func TestAMemberWithoutTheTransportIsWhyThereIsTCP(t *testing.T) {
	with, without := newMember(t, TCP), newMember(t, TCP)
	with.mode, with.transport = Auto, failing{opens: true}
	var peers []fabric.Peer
	for id, m := range []*member{with, without} {
		peers = append(peers, m.peer(order.NodeID(id+1)))
	}
	a, b := with.open(1, 0, peers...), without.open(1, 1, peers...)
	if err := errors.Join(await(t, a), await(t, b)); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(a.Fallback(1), errNotThere) || b.Fallback(0) != nil {
		t.Errorf("instead: %v, and %v at the member without", a.Fallback(1), b.Fallback(0))
	}
}
