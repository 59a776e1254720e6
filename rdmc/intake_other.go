//go:build !linux

package rdmc

import "io"

func newIntake(conn io.Reader) intake { return eager{conn} }
