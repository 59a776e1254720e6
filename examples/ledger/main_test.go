package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"
)

func TestEveryRunFindsWhatTheRunsBeforeItDeposited(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	dir := t.TempDir()
	for k := range 3 {
		var out bytes.Buffer
		if err := run(ctx, dir, &out); err != nil {
			t.Fatalf("run %d: %v", k, err)
		}
		const each = members * deposits
		if want := fmt.Sprintf("the account has %d\n%d deposits later it has %d\n", k*each, each, (k+1)*each); out.String() != want {
			t.Errorf("run %d: %q, want %q", k, out.String(), want)
		}
	}
}

func TestACancelledRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, t.TempDir(), &bytes.Buffer{}); err == nil {
		t.Error("it ran without time")
	}
}
