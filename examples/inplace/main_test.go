package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestReplicasEndWithEqualDigests(t *testing.T) {
	for _, updates := range []int{0, 1, 5000} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var out bytes.Buffer
		if err := run(ctx, &out, updates); err != nil {
			t.Fatalf("%d updates: %v\n%s", updates, err, &out)
		}
		if n := strings.Count(out.String(), fmt.Sprintf(": %d updates in ", members*updates)); n != members {
			t.Errorf("%d updates:\n%s", updates, &out)
		}
	}
}

func TestACancelledRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, &bytes.Buffer{}, 10); err == nil {
		t.Error("it ran without time")
	}
}
