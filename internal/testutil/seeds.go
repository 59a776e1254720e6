//go:build !system

package testutil

import "testing"

// Seeds is how many seeds or cases a test tries: the first number in a plain run, the second one
// with the build tag system.
func Seeds[N ~int | ~uint64](plain, _ N) N { return plain }

// Long skips a test that takes long in a plain run. With the build tag system it runs.
func Long(t testing.TB) {
	t.Helper()
	t.Skip("runs with the build tag system")
}
