//go:build !linux

package rdmc

import "net"

func newIntake(conn net.Conn) intake { return eager{conn} }
