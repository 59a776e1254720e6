//go:build linux

// Package ibverbs opens RDMA devices of this host, InfiniBand or RoCE, for the transport of package
// verbs. A program that imports it, and gives the transport to its configuration, is built with
//
//	CGO_ENABLED=1 go build -tags verbs
//
// and needs a C compiler, libibverbs with its headers, and the driver of the device. Without the
// tag this package is there, and Open says what is missing.
package ibverbs

import (
	"errors"
)

// ErrNotBuilt says that a program was built without RDMA.
var ErrNotBuilt = errors.New("this program was built without RDMA: build it with -tags verbs and CGO_ENABLED=1, a C compiler and libibverbs (Debian: libibverbs-dev, Fedora: rdma-core-devel)")

// ErrNoDevice says that there is no device that could be used.
var ErrNoDevice = errors.New("no RDMA device")
