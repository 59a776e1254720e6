package logwire

import (
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

func identified(group, secret string) func(*ServerConfig) {
	return func(c *ServerConfig) {
		c.Identity = func() (string, views.Secret) { return group, views.NewSecret(secret) }
	}
}

// LW5
func TestNothingIsCutForALogOfAnotherGroup(t *testing.T) {
	t.Parallel()
	all := history(20)
	first := func(c *CatchUpConfig) { c.Group, c.Secret = "first", views.NewSecret("of the first") }
	for name, source := range map[string]func(*ServerConfig){
		"another group":                       identified("second", "of the second"),
		"the same name, and not the secret":   identified("first", "a guess"),
		"the same name, and no secret at all": identified("first", ""),
		"no group":                            func(*ServerConfig) {},
	} {
		t.Run(name, func(t *testing.T) {
			l, host := put(t, newLog(t, bolt.Engine), all[:10]...), newHost(t, put(t, newLog(t, bolt.Engine), fork(all, 0)...), source)
			r, err := bring(t, l, order.Version{}, first, host)
			if !errors.Is(err, views.ErrOtherHistory) || !strings.Contains(err.Error(), "first") {
				t.Errorf("%+v, %v", r, err)
			}
			if !alike(everything(t, l), all[:10]) {
				t.Error("the log is another one now")
			}
		})
	}
	l, host := put(t, newLog(t, bolt.Engine), all[:10]...), newHost(t, put(t, newLog(t, bolt.Engine), all...), identified("first", "of the first"))
	if _, err := bring(t, l, order.Version{}, first, host); err != nil || !alike(everything(t, l), all) {
		t.Errorf("from a log of the own group: %v", err)
	}
	fresh, open := newLog(t, bolt.Engine), newHost(t, l, identified("first", "of the first"), func(c *ServerConfig) { c.Open = true })
	if _, err := bring(t, fresh, order.Version{}, nil, open); err != nil || !alike(everything(t, fresh), all) {
		t.Errorf("a log of no group: %v", err)
	}
}

// LW6: nothing is told to a process that has not proved that it is of the group, whatever it says;
// and it learns what to do about it.
func TestLW6AStrangerIsToldNothing(t *testing.T) {
	t.Parallel()
	secret := views.NewSecret("of the first")
	for name, prove := range map[string]func(c challenge, h *hello){
		"no proof": func(challenge, *hello) {},
		"another secret": func(c challenge, h *hello) {
			h.Proof = views.NewSecret("a guess").Sum(proofOfReader, about(c.Nonce, h.Nonce))
		},
		"another use": func(c challenge, h *hello) { h.Proof = secret.Sum(proofOfMember, about(c.Nonce, h.Nonce)) },
		"of another nonce": func(c challenge, h *hello) {
			h.Proof = secret.Sum(proofOfReader, about(trust.NewNonce(), h.Nonce))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, put(t, newLog(t, bolt.Engine), history(3)...), identified("first", "of the first"))
			conn, err := h.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			on, c, mine, w := wire.New(conn, quick, maxFrameBytes), challenge{}, hello{Format: formatVersion, Nonce: trust.NewNonce()}, welcome{}
			if err := on.Hear(&c); err != nil {
				t.Fatal(err)
			}
			prove(c, &mine)
			if err := errors.Join(on.Say(mine), on.Hear(&w)); err != nil {
				t.Fatal(err)
			}
			if err := fromRemote(w.Code, w.Text); !errors.Is(err, ErrNotAdmitted) || !strings.Contains(err.Error(), "OpenLogs") || w.Proof != nil {
				t.Errorf("%v, %+v", err, w)
			}
			_ = on.Say(request{Do: doList}) // it goes on as if it had been admitted
			conn.Close()
			h.serving.Wait()
			if r := h.rejections(); len(r) != 1 || r[0].Reason != port.NotMember {
				t.Errorf("%v", r)
			}
		})
	}
}

// LW6: the proof that a member of the group gave in one conversation admits no process to another
// one.
func TestLW6AProofThatWasRecordedIsOfNoUse(t *testing.T) {
	t.Parallel()
	h := newHost(t, put(t, newLog(t, bolt.Engine), history(3)...), identified("first", "of the first"))
	var recorded hello // what was said in a conversation that another process overheard
	said := func(says hello) (w welcome) {
		conn, err := h.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		on, c := wire.New(conn, quick, maxFrameBytes), challenge{}
		if err := on.Hear(&c); err != nil {
			t.Fatal(err)
		}
		if says.Proof == nil {
			says.Proof = views.NewSecret("of the first").Sum(proofOfReader, about(c.Nonce, says.Nonce))
			recorded = says
		}
		if err := errors.Join(on.Say(says), on.Hear(&w)); err != nil {
			t.Fatal(err)
		}
		return w
	}
	if w := said(hello{Format: formatVersion, Group: "first", Nonce: trust.NewNonce()}); w.Code != "" {
		t.Fatalf("a member is not admitted: %+v", w)
	}
	if w := said(recorded); w.Code != codeOf(ErrNotAdmitted) {
		t.Errorf("%+v", w)
	}
}

func TestAMemberThatProvesItselfReads(t *testing.T) {
	t.Parallel()
	all := history(3)
	h := newHost(t, put(t, newLog(t, bolt.Engine), all...), identified("first", "of the first"))
	c := h.client()
	if _, err := c.List(t.Context()); !errors.Is(err, ErrNotAdmitted) {
		t.Errorf("a stranger: %v", err)
	}
	c.Group, c.Secret = "first", views.NewSecret("of the first")
	if got := collect(t, c.Range(t.Context(), prices, order.Version{}, order.Version{})); !alike(got, all) {
		t.Errorf("%v", got)
	}
	c.Group, c.Secret = "second", views.NewSecret("of the second")
	if _, err := c.List(t.Context()); !errors.Is(err, views.ErrOtherHistory) || !errors.Is(err, ErrNotAdmitted) {
		t.Errorf("a member of another group: %v", err)
	}
}
