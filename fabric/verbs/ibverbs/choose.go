//go:build linux

package ibverbs

import (
	"errors"
	"sync/atomic"
)

// Ranks of an address (GID): the higher one is better. Both ends of a pair need addresses of one
// kind, so every host chooses by the same rule, and not by the order in which drivers list them.
const (
	noAddress = iota
	linkLocal
	global     // IPv6; and all of InfiniBand
	globalIPv4 // of RoCE: those of hosts with IPv6, too
)

// rankOf ranks an address of a port. RoCE version 1 does not cross routers, and few networks carry
// it.
func rankOf(gid [16]byte, roce, version2 bool) int {
	mapped := [12]byte{10: 0xff, 11: 0xff}
	switch {
	case gid == [16]byte{} || roce && !version2:
		return noAddress
	case !roce:
		return global // the first one: others are added by hand
	case gid[0] == 0xfe && gid[1]&0xc0 == 0x80:
		return linkLocal
	case [12]byte(gid[:12]) == mapped:
		return globalIPv4
	}
	return global
}

// inlineSizes are the lengths of messages that are copied into their requests, of which the first
// one that the device takes is used: two lines, one line, nothing. No query tells what a device
// takes; some refuse a pair for more than 96 bytes.
var inlineSizes = []int{160, 80, 0}

// mostInline returns the largest size for which a pair can be made, or the error for size 0.
func mostInline(makes func(size int) error) (size int, err error) {
	for _, size = range inlineSizes {
		if err = makes(size); err == nil {
			return size, nil
		}
	}
	return 0, err
}

// What a device may say of itself.
var (
	errDeviceLost = errors.New("the device failed, or was removed")
	errPortDown   = errors.New("the port is down")
)

// health is what a device said of itself. Any goroutine may use it.
type health struct {
	lost atomic.Pointer[error] // final: the device, or a queue
	down atomic.Pointer[error] // the port, until it is active again
}

// failed returns why the device cannot be used now, or nil.
func (h *health) failed() error {
	for _, p := range []*atomic.Pointer[error]{&h.lost, &h.down} {
		if err := p.Load(); err != nil {
			return *err
		}
	}
	return nil
}
