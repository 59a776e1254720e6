package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

func addresses(t *testing.T) []string {
	return []string{testutil.FreeAddress(t), testutil.FreeAddress(t)}
}

func TestALateReaderBeginsWithTheLastPositions(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, addresses(t), &out); err != nil {
		t.Fatal(err)
	}
	want := "vehicle 0 is at 6, 0\nvehicle 1 is at 7, 0\nvehicle 2 is at 8, 0\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestACancelledRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, addresses(t), &bytes.Buffer{}); err == nil {
		t.Error("it ran without time")
	}
}
