//go:build !system

package testutil

// Seeds is how many seeds or cases a test tries: the first number in a plain run, the second one with the build tag system.
func Seeds[N ~int | ~uint64](plain, _ N) N { return plain }
