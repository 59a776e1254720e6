package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist"
)

// Hello is a program that imports no engine.
func TestAProgramWithoutAnEngineIsToldWhatToImport(t *testing.T) {
	_, err := persist.Open(t.Context(), persist.Config{Dir: t.TempDir(), Cluster: "blue", Node: 1})
	missing(t, err)
	missing(t, persist.CheckEngine(nil))
	_, err = squall.Open(t.Context(), squall.Config{
		Cluster: "blue", ID: 1, Listen: "127.0.0.1:0", Dir: t.TempDir(),
		Subgroups: []squall.SubgroupConfig{{Name: "log", Mode: squall.Persistent, Deliver: func(squall.Message) {}}},
	})
	missing(t, err)
}

func missing(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, squall.ErrNoEngine) || !strings.Contains(err.Error(), "import github.com/squall-go/squall/persist/bolt") {
		t.Errorf("%v: it does not say what to import", err)
	}
}
