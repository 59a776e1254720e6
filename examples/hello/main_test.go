package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAllHearTheSameHellos(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	_, first, _ := strings.Cut(lines[0], " heard: ")
	if len(lines) != members || strings.Count(first, "hello from ") != members {
		t.Errorf("%q", lines)
	}
	for i, line := range lines {
		if line != fmt.Sprintf("node %d heard: %s", i+1, first) {
			t.Errorf("%s", line)
		}
	}
}

func TestACancelledRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, &bytes.Buffer{}); err == nil {
		t.Error("it ran without time")
	}
}
