//go:build !linux

package samehost

// Host is empty: there are no abstract sockets here.
func Host() string { return "" }
