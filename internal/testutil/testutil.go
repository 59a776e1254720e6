// Package testutil has what the tests of several packages need: certificates, and bounds for what
// has to happen.
package testutil

import (
	"context"
	"testing"
	"time"
)

// patience is how long a test waits for what has to happen, on a machine that has other work as
// well.
const patience = time.Minute

// Within returns a context for what has to happen soon. It ends with the test.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
