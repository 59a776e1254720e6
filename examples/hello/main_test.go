package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

func addresses(t *testing.T) (free []string) {
	for range addrs {
		free = append(free, testutil.FreeAddress(t))
	}
	return free
}

func TestAllHearTheSameHellos(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, addresses(t), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	_, first, _ := strings.Cut(lines[0], " heard: ")
	if len(lines) != len(addrs) || strings.Count(first, "hello from ") != len(addrs) {
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
	if err := run(ctx, addresses(t), &bytes.Buffer{}); err == nil {
		t.Error("it ran without time")
	}
}
