//go:build !linux

package rdmc

import "net"

func tune(net.Conn) {}
