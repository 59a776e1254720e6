//go:build !linux

package background

// GiveWay does nothing here.
func GiveWay() {}
