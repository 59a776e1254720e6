package multicast_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// bodies has what a test put there, by sender and id.
type bodies struct {
	here  map[[2]uint64]*multicast.Body
	freed int
}

func newBodies() *bodies { return &bodies{here: map[[2]uint64]*multicast.Body{}} }

func (b *bodies) put(sender, id uint64, data string) {
	b.here[[2]uint64{sender, id}] = multicast.NewBody([]byte(data), "", func() { b.freed++ })
}

// Take implements multicast.Bodies.
func (b *bodies) Take(sender order.SenderRank, id uint64) *multicast.Body {
	key := [2]uint64{uint64(sender), id}
	body := b.here[key]
	delete(b.here, key)
	return body
}

// bulkGroup is a group whose members have bodies.
func bulkGroup(t *testing.T, n int, mode views.Mode) (*group, []*bodies) {
	t.Helper()
	all := make([]*bodies, n)
	return newGroupAfter(t, func(r int, cfg *multicast.Config) {
		all[r] = newBodies()
		cfg.Bodies = all[r]
	}, n, mode, multicast.Tuning{}), all
}

func (g *group) place(r int, id uint64, size int) {
	g.t.Helper()
	if _, ok := g.nodes[r].Place(id, size); !ok {
		g.t.Fatalf("rank %d has no room for a record", r)
	}
}

func TestLargeAndSmallMessagesAreInOneOrder(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered} {
		t.Run(mode.String(), func(t *testing.T) {
			g, all := bulkGroup(t, 3, mode)
			text := strings.Repeat("large ", 2000)
			for _, b := range all {
				b.put(1, 7, text)
			}
			g.send(1, "before")
			g.place(1, 7, len(text))
			g.send(1, "behind")
			g.settle()
			for r, n := range g.nodes {
				if want := []string{"2:before", "2:" + text, "2:behind"}; !slices.Equal(n.log, want) {
					t.Errorf("rank %d delivered %.40q", r, n.log)
				}
				if s := n.Stats; s.LargeDelivered.Load() != 1 || s.DeliveredBytes.Load() != uint64(len("beforebehind")+len(text)) {
					t.Errorf("rank %d counted %d large messages, %d bytes", r, s.LargeDelivered.Load(), s.DeliveredBytes.Load())
				}
				if all[r].freed != 1 {
					t.Errorf("rank %d freed %d bodies", r, all[r].freed)
				}
			}
			if s := g.nodes[1].Stats; s.LargeSent.Load() != 1 || s.Sent.Load() != 3 {
				t.Errorf("counted %d large messages, %d messages", s.LargeSent.Load(), s.Sent.Load())
			}
		})
	}
}

func TestABodyIsHeldUntilItsMessageWasTakenAndByWhoHoldsIt(t *testing.T) {
	g, all := bulkGroup(t, 2, views.Ordered)
	var kept []*multicast.Body
	for _, b := range all {
		b.put(0, 1, "a body")
	}
	full := true
	g.nodes[1].take = func(n int) int {
		if full {
			return 0
		}
		return n
	}
	g.place(0, 1, len("a body"))
	for range 20 {
		g.nodes[0].cycle()
		g.nodes[1].cycle()
	}
	if all[1].freed != 0 {
		t.Fatal("the body of a message that was refused is freed")
	}
	g.nodes[1].keep = func(m multicast.Message) { kept = append(kept, m.Body().Hold()) }
	full = false
	g.settle()
	if len(kept) != 1 || string(kept[0].Data) != "a body" || all[1].freed != 0 {
		t.Fatalf("%d bodies kept, %d freed", len(kept), all[1].freed)
	}
	if kept[0].Release(); all[1].freed != 1 {
		t.Error("a body without holders is not freed")
	}
}

func TestARecordWithoutItsBodyFailsItsSenderAndStopsTheOrderThere(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered} {
		for fault, put := range map[string]func(*bodies){
			"without its body": func(*bodies) {},
			"its record says":  func(b *bodies) { b.put(0, 9, "short") },
		} {
			t.Run(mode.String()+" "+fault, func(t *testing.T) {
				g, all := bulkGroup(t, 2, mode)
				all[0].put(0, 9, "whole body")
				put(all[1])
				g.send(0, "before")
				g.place(0, 9, len("whole body"))
				g.send(0, "behind")
				for range 20 {
					g.nodes[0].cycle()
					g.nodes[1].cycle()
				}
				f := g.nodes[1].table.Failures()
				if len(f) != 1 || f[0].Rank != 0 || !strings.Contains(f[0].Err.Error(), fault) {
					t.Errorf("failures: %v", f)
				}
				if want := []string{"1:before"}; !slices.Equal(g.nodes[1].log, want) {
					t.Errorf("delivered %q", g.nodes[1].log)
				}
			})
		}
	}
}
