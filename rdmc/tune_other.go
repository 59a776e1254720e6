//go:build !linux

package rdmc

func tune(any) {}
