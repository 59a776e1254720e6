package logwire

import (
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

func identified(group, secret string) func(*ServerConfig) {
	return func(c *ServerConfig) {
		c.Identity = func() (string, views.Secret) { return group, views.NewSecret(secret) }
	}
}

// LW5
func TestNothingIsCutForALogOfAnotherGroup(t *testing.T) {
	all := history(20)
	first := func(c *CatchUpConfig) { c.Group, c.Secret = "first", views.NewSecret("of the first") }
	for name, source := range map[string]func(*ServerConfig){
		"another group":                       identified("second", "of the second"),
		"the same name, and not the secret":   identified("first", "a guess"),
		"the same name, and no secret at all": identified("first", ""),
		"no group":                            func(*ServerConfig) {},
	} {
		t.Run(name, func(t *testing.T) {
			l, host := put(t, newLog(t, persist.EngineBolt), all[:10]...), newHost(t, put(t, newLog(t, persist.EngineBolt), fork(all, 0)...), source)
			r, err := bring(t, l, order.Version{}, first, host)
			if !errors.Is(err, ErrNoSource) || !errors.Is(err, views.ErrOtherHistory) || !strings.Contains(err.Error(), "first") {
				t.Errorf("%+v, %v", r, err)
			}
			if !alike(everything(t, l), all[:10]) {
				t.Error("the log is another one now")
			}
		})
	}
	l, host := put(t, newLog(t, persist.EngineBolt), all[:10]...), newHost(t, put(t, newLog(t, persist.EngineBolt), all...), identified("first", "of the first"))
	if _, err := bring(t, l, order.Version{}, first, host); err != nil || !alike(everything(t, l), all) {
		t.Errorf("from a log of the own group: %v", err)
	}
	fresh := newLog(t, persist.EngineBolt)
	if _, err := bring(t, fresh, order.Version{}, nil, host); err != nil || !alike(everything(t, fresh), all) {
		t.Errorf("a log of no group: %v", err)
	}
}
