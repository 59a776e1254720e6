//go:build !linux

// Package rdma gives groups of the command their RDMA device.
package rdma

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall"
)

// Use refuses a configuration whose fabric needs a device.
func Use(c *squall.Config) error {
	if c.Fabric == squall.FabricTransport {
		return fmt.Errorf("fabric verbs: %w on this system", errors.ErrUnsupported)
	}
	return nil
}

// Offer does nothing: there is no device on this system.
func Offer(*squall.Config) error { return nil }
