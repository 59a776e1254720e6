package bench

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOnlyOneMeasurementHoldsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var messages bytes.Buffer
	release, err := TakeLock(t.Context(), path, &messages)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := TakeLock(ctx, path, &messages); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(messages.String(), path) {
		t.Fatalf("%v, %q", err, &messages)
	}
	release()
	release, err = TakeLock(t.Context(), path, &messages)
	if err != nil {
		t.Fatal(err)
	}
	release()
}
