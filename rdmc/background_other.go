//go:build !linux

package rdmc

// giveWay does nothing: elsewhere the niceness of a single thread cannot be set.
func giveWay() {}
